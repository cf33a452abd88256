# What the job of the main branch does: run, and keep the run as a file for others to be held against.
set -e
seatrial run --name main --seed 7
seatrial export main -o baseline.jsonl
