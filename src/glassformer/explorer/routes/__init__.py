"""The API by topic: each route parses, calls and answers; what it answers is made elsewhere."""
