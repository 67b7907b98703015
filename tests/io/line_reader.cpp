#include "io/line_reader.h"

#include "support/compare.h"

using namespace topomask;

namespace {

/// Lines of a string in memory, a few bytes of it at a time where the buffer allows no more.
io::LineReader lines_of(const std::string& text) {
  return {io::Origin{"test", "text"}, [text, at = size_t{0}](char* out, size_t bytes) mutable {
            const size_t count = std::min(bytes, text.size() - at);
            text.copy(out, count, at);
            at += count;
            return count;
          }};
}

std::vector<std::string> all_lines(const std::string& text) {
  io::LineReader reader = lines_of(text);
  std::vector<std::string> lines;
  while (reader.next()) lines.emplace_back(reader.line());
  EXPECT_EQ(reader.number(), static_cast<int64_t>(lines.size()));
  return lines;
}

}  // namespace

TEST(LineReader, EndsLinesInEveryUsualWay) {
  EXPECT_EQ(all_lines(""), std::vector<std::string>{});
  EXPECT_EQ(all_lines("\n"), std::vector<std::string>{""});
  EXPECT_EQ(all_lines("a\nb\r\n\nc"), (std::vector<std::string>{"a", "b", "", "c"}));
}

TEST(LineReader, CrossesTheEndOfItsWindow) {
  std::string text;
  std::vector<std::string> expected;
  for (size_t i = 0; text.size() < 5 * io::kReadBuffer; ++i) {
    expected.emplace_back(i * 37 % 1001, static_cast<char>('a' + i % 26));
    text += expected.back() + '\n';
  }
  EXPECT_EQ(all_lines(text), expected);
  expected.emplace_back(io::kReadBuffer - 1, 'x');
  EXPECT_EQ(all_lines(text + expected.back()), expected);
}

TEST(LineReader, RefusesALineThatDoesNotFit) {
  io::LineReader reader = lines_of("a\n" + std::string(io::kReadBuffer + 1, 'x') + "\n");
  EXPECT_TRUE(reader.next());
  EXPECT_ERROR(reader.next(), "test: text:2: a line must be shorter than 262144 bytes");
}

TEST(LineReader, ReadsNumbersBetweenCommasAndBlanks) {
  io::LineReader reader = lines_of(" 1,-2 , 3\t4  \n1.5, -2e3\n9223372036854775808\n1 2x\n");
  ASSERT_TRUE(reader.next());
  io::LineNumbers line(reader);
  for (const int64_t expected : {1, -2, 3, 4}) EXPECT_EQ(line.integer("a number"), expected);
  EXPECT_TRUE(line.done());
  line.end();
  EXPECT_ERROR(line.integer("a number"), "test: text:1: expected a number, got the end of the line");
  ASSERT_TRUE(reader.next());
  io::LineNumbers floats(reader);
  EXPECT_EQ(floats.number("a weight"), 1.5F);
  EXPECT_ERROR(floats.end(), "test: text:2: expected the end of the line, got \"-2e3\"");
  EXPECT_EQ(floats.number("a weight"), -2000.F);
  ASSERT_TRUE(reader.next());
  EXPECT_ERROR(io::LineNumbers(reader).integer("an id"), "text:3: expected an id, got \"9223372036854775808\"");
  ASSERT_TRUE(reader.next());
  io::LineNumbers last(reader);
  EXPECT_EQ(last.integer("an id"), 1);
  EXPECT_ERROR(last.integer("an id"), "text:4: expected an id, got \"2x\"");
}
