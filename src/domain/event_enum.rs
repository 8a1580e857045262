//! Declaration of the event enum of an aggregate.

/// Declares an enum with stable names of its variants.
macro_rules! event_enum {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident $({ $($fields:tt)* })? $(($value:ty))?),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant $({ $($fields)* })? $(($value))?),+
        }

        impl $name {
            /// Stable names of all variants.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($variant)),+];

            /// Returns the stable name of the event.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($variant),)+
                }
            }
        }
    };
}
pub(crate) use event_enum;
