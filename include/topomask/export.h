#pragma once

/// Opens the namespace of a public header: what is declared there can be used outside the shared library. The library
/// is compiled with hidden visibility, so that nothing else in it can, and no name of it meets one of a program's.
///
///     namespace TOPOMASK_API topomask { … }
#define TOPOMASK_API [[gnu::visibility("default")]]
