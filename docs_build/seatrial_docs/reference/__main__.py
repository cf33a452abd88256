"""`make reference`: write the generated parts of docs/reference."""

from . import write_pages

for page in write_pages():
    print(f"reference: wrote {page.name}")
