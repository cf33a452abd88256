"""Templates, styles and charts that the HTML report and the web pages share."""
