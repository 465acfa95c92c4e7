"""Programs by key: graphs that are described anew at each call, compiled once."""
