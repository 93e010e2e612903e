"""Write the HTML page of a study."""
