//! What the bindings of Tidings share: owned DTOs, one error table, wake and drain, the panic guard
