//! The whole program from outside: driver, command line, screens, sessions.
