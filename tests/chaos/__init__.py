"""What must not disturb traffic: events under continuous pings, with a report of what each cost."""
