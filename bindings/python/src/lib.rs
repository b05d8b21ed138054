//! The Python extension module of Tidings
