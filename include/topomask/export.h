#pragma once

/// Opens the namespace of a public header: what is declared there can be used outside the shared library. The library
/// is compiled with hidden visibility, so that nothing else in it can be used, and none of its names clashes with a
/// name of the program.
///
///     namespace TOPOMASK_API topomask { … }
#define TOPOMASK_API [[gnu::visibility("default")]]
