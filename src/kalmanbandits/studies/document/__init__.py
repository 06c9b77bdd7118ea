"""The document of a study: what its TOML file says, checked line by line and made into cells."""
