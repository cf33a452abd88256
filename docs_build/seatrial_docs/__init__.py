"""What the documentation is made with: blocks that are executed, reference pages that are generated, a picture."""
