#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/internal_api.h"
#include "io/input_file.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace io {

/// Numbers from a text file, plain or gzip, through one window of fixed size: no line is ever held whole, so its length
/// costs nothing. Blanks are space, tab and carriage return. Every error names file and line.
class TextReader {
 public:
  enum class Next { token, end_of_line, end_of_file };

  explicit TextReader(Origin origin);

  const Origin& origin() const { return source_.origin(); }
  int64_t line() const { return line_; }  ///< 1-based
  bool can_hold(int64_t bytes) const { return source_.can_hold(bytes); }

  /// Skips blanks and returns what follows.
  Next peek() {
    do {
      if (end_ - at_ < kLongestToken && !exhausted_) refill();
      while (*at_ == ' ' || *at_ == '\t' || *at_ == '\r') ++at_;
    } while (end_ - at_ < kLongestToken && !exhausted_);
    if (at_ == end_) return Next::end_of_file;
    return *at_ == '\n' ? Next::end_of_line : Next::token;
  }
  /// peek() past empty lines and lines that start with `comment`: a token or the end of the file.
  Next peek_content(char comment);
  bool at_character(char c) const { return at_ != end_ && *at_ == c; }  ///< after peek()

  /// A number of digits only, at most 18 of them. `what` is what the error says was expected: "a node id".
  int64_t integer(const char* what) {
    peek();
    uint64_t value = 0;
    const char* p = at_;
    for (unsigned digit; (digit = static_cast<unsigned char>(*p) - unsigned{'0'}) <= 9; ++p) value = value * 10 + digit;
    if (p == at_ || p - at_ > 18 || !ends_token(p)) refuse_integer(what);
    at_ = p;
    return static_cast<int64_t>(value);
  }
  /// A finite number, rounded once to `dtype` (float32 or float64).
  double number(const char* what, c10::ScalarType dtype);
  std::string_view token(const char* what);  ///< the next word of this line; valid until the next call

  /// Blanks, then the line break or the end of the file; anything else is an error.
  void end_line();
  void skip_line();
  std::string comment();  ///< the rest of the line, or its first 512 bytes; the line is passed

  template <typename... Args>
  [[noreturn]] void fail_here(const Args&... args) const {
    C10_THROW_ERROR(Error, c10::str(origin().op, ": ", origin().path, ":", line_, ": ", args...));
  }
  [[noreturn]] void fail_expected(const std::string& what);  ///< `expected WHAT, got "the next word"`

 private:
  static constexpr int64_t kLongestToken = 512;
  static_assert(kReadBuffer >= 2 * kLongestToken, "a token and what is before it must fit the window");

  bool ends_token(const char* p) const { return *p == ' ' || *p == '\t' || *p == '\n' || *p == '\r' || p == end_; }
  const char* token_end() const;
  [[noreturn]] void refuse_integer(const char* what);
  void refill();

  ByteSource source_;
  std::vector<char> window_;
  const char* at_;
  const char* end_;  ///< *end_ is a zero byte, which ends every scan
  int64_t line_ = 1;
  bool exhausted_ = false;
};

}  // namespace io
}  // namespace topomask
