//! Who may do what: one table (contract 3).
