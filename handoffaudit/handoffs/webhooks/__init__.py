"""What happens here, told to others: to web addresses by signed requests, to people by e-mail."""
