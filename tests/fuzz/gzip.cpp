#include <zlib.h>

#include "fuzz/graph_file.h"

// The input, compressed: its first byte says in how many streams one after the other. Mutations of compressed bytes
// seldom get past the checksum; here the code after it is reached, and its result must be what the plain text gives.

namespace {

using namespace topomask;

std::string compressed(std::string_view text) {
  z_stream stream{};
  constexpr int kFast = 1, kGzipWindow = 9 + 16, kSmallMemory = 1;
  fuzz::require(deflateInit2(&stream, kFast, Z_DEFLATED, kGzipWindow, kSmallMemory, Z_DEFAULT_STRATEGY) == Z_OK,
                "zlib does not start");
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  fuzz::require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib does not finish");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// The graph as text, or the error without the path.
std::string outcome(const std::string& path) {
  try {
    const Graph graph = read_snap(path, fuzz::small_graphs(0));
    fuzz::check_graph(graph);
    const auto bytes = [](const at::Tensor& t) {
      return std::string(static_cast<const char*>(t.const_data_ptr()), t.nbytes());
    };
    return bytes(graph.offsets()) + bytes(graph.columns()) + bytes(graph.weights());
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    const size_t at = text.find(path);
    fuzz::require(at != std::string::npos, "an error does not name the file");
    return text.substr(at + path.size());
  }
}

}  // namespace

FUZZ_TARGET(gzip) {
  if (size == 0) return;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  // Plain text that starts as gzip does would be taken for it.
  if (text.starts_with("\x1f\x8b")) return;
  const size_t streams = 1 + data[0] % 4, part = text.size() / streams;
  std::string packed;
  for (size_t i = 0; i < streams; ++i) {
    packed += compressed(text.substr(i * part, i + 1 < streams ? part : std::string_view::npos));
    packed.append(data[0] / 4 % 3, '\0');
  }
  static fuzz::MemoryFile plain_file("plain"), packed_file("packed");
  fuzz::require(outcome(plain_file.put(text)) == outcome(packed_file.put(packed)), "gzip and plain text differ");
}
