# What the job of a pull request does. The run may fail: whether it got worse is what decides.
set -e
export SEATRIAL_STORE=pull-request.db
seatrial import baseline.jsonl
seatrial run --name pull-request --seed 8 --agent "${AGENT:-agent:answer}" || [ $? -eq 1 ]
seatrial compare main pull-request --gate statistical
