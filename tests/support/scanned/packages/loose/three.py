from apart import Needing

app = Needing("key")
