"""What of a plan runs beside the rows, and the tasks that read it."""
