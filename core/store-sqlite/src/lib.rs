//! The SQLite store of Tidings: one file, several processes, durable
