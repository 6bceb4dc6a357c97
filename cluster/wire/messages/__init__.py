"""Messages: the methods of servers, their envelope and their errors."""
