"""NNabla's file formats: messages of its protobuf description, networks, archives."""
