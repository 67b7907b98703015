#include "io/text_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "io/quoted.h"

namespace topomask::io {

TextReader::TextReader(Origin origin) : source_(std::move(origin)), window_(kReadBuffer + 1) {
  at_ = end_ = window_.data();
}

void TextReader::refill() {
  const size_t kept = static_cast<size_t>(end_ - at_);
  std::memmove(window_.data(), at_, kept);
  const size_t got = source_.read(window_.data() + kept, kReadBuffer - kept);
  exhausted_ = kept + got < kReadBuffer;
  window_[kept + got] = '\0';
  at_ = window_.data();
  end_ = at_ + kept + got;
}

TextReader::Next TextReader::peek_content(char comment) {
  for (;;) {
    const Next next = peek();
    if (next == Next::end_of_file || (next == Next::token && *at_ != comment)) return next;
    skip_line();
  }
}

const char* TextReader::token_end() const {
  const char* p = at_;
  while (!ends_token(p)) ++p;
  return p;
}

std::string_view TextReader::token(const char* what) {
  if (peek() != Next::token) fail_expected(what);
  const char* p = token_end();
  if (p - at_ >= kLongestToken) fail_expected(what);
  const std::string_view word(at_, static_cast<size_t>(p - at_));
  at_ = p;
  return word;
}

double TextReader::number(const char* what, c10::ScalarType dtype) {
  if (peek() != Next::token) fail_expected(what);
  const char* last = token_end();
  if (last - at_ >= kLongestToken) fail_expected(what);
  const char* first = *at_ == '+' ? at_ + 1 : at_;
  double value = 0;
  auto parsed = std::from_chars(first, last, value);
  if (parsed.ec == std::errc{} && dtype == c10::kFloat) {
    // Straight from the digits: rounding to double and then to float could round the wrong way.
    float narrow = 0;
    if (std::from_chars(first, last, narrow).ec == std::errc{}) {
      value = narrow;
    } else if (std::abs(value) < 1) {
      value = static_cast<float>(value);
    } else {
      parsed.ec = std::errc::result_out_of_range;
    }
  }
  if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == last) {
    fail_expected(c10::str(what, " in the range of ", c10::toString(dtype)));
  }
  const bool signed_twice = first != at_ && first != last && *first == '-';
  if (parsed.ec != std::errc{} || parsed.ptr != last || signed_twice) fail_expected(what);
  if (!std::isfinite(value)) fail_expected(c10::str(what, " that is finite"));
  at_ = last;
  return value;
}

void TextReader::end_line() {
  const Next next = peek();
  if (next == Next::token) fail_expected("the end of the line");
  if (next == Next::end_of_file) return;
  ++at_;
  ++line_;
}

void TextReader::skip_line() {
  for (;;) {
    const auto* found = static_cast<const char*>(std::memchr(at_, '\n', static_cast<size_t>(end_ - at_)));
    at_ = found ? found + 1 : end_;
    if (found) ++line_;
    if (found || exhausted_) return;
    refill();
  }
}

std::string TextReader::comment() {
  peek();
  const auto room = static_cast<size_t>(std::min<int64_t>(end_ - at_, kLongestToken));
  const auto* found = static_cast<const char*>(std::memchr(at_, '\n', room));
  std::string text(at_, found ? found : at_ + room);
  skip_line();
  return text;
}

void TextReader::refuse_integer(const char* what) {
  const char* p = at_;
  while (*p >= '0' && *p <= '9') ++p;
  if (p != at_ && ends_token(p)) fail_expected(c10::str(what, " of at most 18 digits"));
  fail_expected(what);
}

void TextReader::fail_expected(const std::string& what) {
  const Next next = peek();
  if (next == Next::end_of_file) fail_here("expected ", what, ", got the end of the file");
  if (next == Next::end_of_line) fail_here("expected ", what, ", got the end of the line");
  fail_here("expected ", what, ", got ", quoted({at_, static_cast<size_t>(token_end() - at_)}));
}

}  // namespace topomask::io
