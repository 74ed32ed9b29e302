// SPDX-License-Identifier: MIT
//! The subcommands: a file for each, and a line in the list below.

use clap::Args;
use flexguard_launch::child;
use flexguard_launch::failure::Result;

use crate::manual::Section;

/// A subcommand: the struct of its arguments. Its doc comment is the help text and the description of its manual page.
pub trait Subcommand: Args {
    /// What its manual page says beyond its options.
    const MANUAL: &'static [Section];
    /// The pages of subcommands of its own.
    const PAGES: &'static [Page] = &[];

    /// What this holds is released when it returns; only then may the process end by a signal.
    fn run(self) -> Result<child::Status>;
}

/// The page of a subcommand.
pub struct Page {
    module: &'static str,
    pub sections: &'static [Section],
    pub pages: &'static [Page],
}

impl Page {
    /// The page of the subcommand `name` among `pages`.
    pub fn of<'a>(pages: &'a [Page], name: &str) -> Option<&'a Page> {
        pages.iter().find(|p| p.module.replace('_', "-") == name)
    }
}

/// Declares the modules, the enum of the command line, and the pages. The subcommand is spelled as the module, with dashes.
macro_rules! subcommands {
    ($($(#[$when:meta])* $module:ident::$Args:ident,)*) => {
        $($(#[$when])* pub mod $module;)*

        #[derive(Debug, clap::Subcommand)]
        pub enum Command {
            $($(#[$when])* #[command(name = stringify!($module).replace('_', "-"))] $Args(Box<$module::$Args>),)*
        }

        pub const PAGES: &[$crate::commands::Page] = &[$($(#[$when])* $crate::commands::Page {
            module: stringify!($module),
            sections: <$module::$Args as $crate::commands::Subcommand>::MANUAL,
            pages: <$module::$Args as $crate::commands::Subcommand>::PAGES,
        },)*];

        impl Command {
            pub fn run(self) -> flexguard_launch::failure::Result<flexguard_launch::child::Status> {
                match self {
                    $($(#[$when])* Self::$Args(args) => $crate::commands::Subcommand::run(*args),)*
                }
            }
        }
    };
}

subcommands! {
    run::Run,
    #[cfg(feature = "full")]
    advise::Advise,
    #[cfg(feature = "full")]
    profile::Profile,
    list::List,
    doctor::Doctor,
    monitor::Monitor,
    status::Status,
    #[cfg(feature = "full")]
    metrics::Metrics,
    #[cfg(feature = "full")]
    top::Top,
    #[cfg(feature = "full")]
    trace::Trace,
    bench::Bench,
    #[cfg(feature = "full")]
    completions::Completions,
    #[cfg(feature = "full")]
    man::Man,
    memcached_load::MemcachedLoad,
}
