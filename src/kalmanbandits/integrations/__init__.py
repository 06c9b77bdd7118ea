"""Bridges to other libraries. Each module needs the library it is named after, and says what to install."""
