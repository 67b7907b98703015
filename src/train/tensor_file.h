#pragma once

#include <map>
#include <string>

#include "io/origin.h"
#include "topomask/train/optimiser.h"

namespace topomask {

/// What a tensor file holds: strings and tensors by name. The names "checksum" (of a tensor), "topomask", "bytes" and
/// "format" (of strings) are the file's own.
struct TensorFile {
  std::map<std::string, std::string> metadata;
  NamedTensors tensors;  ///< contiguous, on the CPU
};

// The file is a safetensors file, so that others read it without trusting it:
//
//     8 bytes   h, the length of the header, little-endian
//     h bytes   {"__metadata__":{"topomask":KIND,"bytes":"<20 digits>",…},NAME:{"dtype","shape","data_offsets"},…}
//     the rest  the tensors, one after the other; the last of them, "checksum", is U8 [4]
//
// The start of the header is always spelt as above, and "bytes" is the length of the file: so a file that was cut is
// recognised before anything is parsed. The four bytes at its end are the CRC-32 of all bytes before them,
// little-endian: so every flipped bit, of the header too, is detected as well.

/// Writes the file whole or not at all (see io::OutputFile). `kind` names what it holds: "checkpoint 2".
void write_tensor_file(const io::Origin& origin, const std::string& kind, const TensorFile& content);

/// Checks length and checksum, then the header: types, shapes and offsets must account for every byte of the file, and
/// nothing is allocated that is longer than the file. Each error names the file and what is wrong with it.
TensorFile read_tensor_file(const io::Origin& origin, const std::string& kind);

}  // namespace topomask
