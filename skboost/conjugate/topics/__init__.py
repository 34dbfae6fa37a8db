"""The topic model: words of topics, topics of documents."""
