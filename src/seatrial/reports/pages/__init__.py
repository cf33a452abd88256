"""Template parts, style and charts that the HTML report and the server's pages share."""
