#include "data/video/container.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/files.h"
#include "support/compare.h"
#include "topomask/data/image.h"
#include "topomask/data/video.h"

namespace topomask::testing {
namespace {

const std::filesystem::path kJpegs = std::filesystem::path(TOPOMASK_GOLDEN_DIR).parent_path() / "fuzz/corpus/jpeg";

/// Little-endian; bytes beyond the eighth are 0.
std::string number(int64_t value, int bytes = 4) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += i < 8 ? static_cast<char>(value >> (8 * i) & 255) : '\0';
  return text;
}

std::string chunk(const std::string& name, const std::string& body) {
  return name + number(std::ssize(body)) + body + (body.size() % 2 ? std::string(1, '\0') : "");
}

std::string list(const std::string& type, const std::string& body, const std::string& name = "LIST") {
  return chunk(name, type + body);
}

/// The header of a stream, of pictures where `compression` is not empty.
std::string stream(const std::string& compression, int64_t width = 0, int64_t height = 0, int64_t bits = 24) {
  if (compression.empty()) return list("strl", chunk("strh", "auds" + number(0)) + chunk("strf", number(1, 18)));
  const std::string format = number(40) + number(width) + number(height) + number(1, 2) + number(bits, 2) +
                             compression + number(0) + number(0, 16);
  return list("strl", chunk("strh", "vids" + compression) + chunk("strf", format));
}

std::string avi(const std::string& streams, const std::string& frames) {
  return list("AVI ",
              list("hdrl", chunk("avih", number(0, 56)) + streams) + list("INFO", chunk("ISFT", "a test")) +
                  list("movi", frames) + chunk("idx1", ""),
              "RIFF");
}

const std::string kPlain(4, '\0');

/// uint8 [3, H, W] as uncompressed rows.
std::string bitmap(const at::Tensor& image, bool top_down) {
  std::string rows;
  for (int64_t y = 0; y < image.size(1); ++y) {
    const int64_t row = top_down ? y : image.size(1) - 1 - y;
    std::string line;
    for (int64_t x = 0; x < image.size(2); ++x) {
      for (int64_t c = 2; c >= 0; --c) line += static_cast<char>(image[c][row][x].item<uint8_t>());
    }
    while (line.size() % 4) line += '\0';
    rows += line;
  }
  return rows;
}

TEST(VideoFile, ReadsUncompressedFrames) {
  const TemporaryFolder folder;
  const at::Tensor images = at::randint(256, {3, 3, 4, 5}).to(at::kByte);
  for (const bool top_down : {false, true}) {
    std::string frames = chunk("00dc", "sound");  // stream 0 is of sound here
    frames += list("rec ", chunk("01db", bitmap(images[0], top_down)));
    frames += chunk("01db", bitmap(images[1], top_down)) + chunk("01db", "") + chunk("JUNK", "odd") +
              chunk("01db", bitmap(images[2], top_down));
    write_file(folder / "a.avi", avi(stream("") + stream(kPlain, 5, top_down ? -4 : 4), frames));
    const VideoFile file(folder / "a.avi");
    ASSERT_EQ(file.frames(), 4);
    EXPECT_EQ(file.height(), 4);
    EXPECT_EQ(file.width(), 5);
    const int64_t shown[] = {0, 1, 1, 2};  // the empty chunk repeats a frame
    for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(file.read(i), images[shown[i]])) << i;
    EXPECT_ERROR(file.read(4), "frame must be in [0, 4), got 4");
  }
}

TEST(VideoFile, ReadsJpegFrames) {
  const TemporaryFolder folder;
  const std::string first = read_file(kJpegs / "colour.jpg"), second = read_file(kJpegs / "progressive.jpg");
  const at::Tensor colour = read_image(kJpegs / "colour.jpg");
  const std::string header = stream("MJPG", colour.size(2), colour.size(1));
  // OpenDML: a second RIFF chunk goes on where the first ends.
  write_file(folder / "a.avi",
             avi(header, chunk("00dc", first)) + list("AVIX", list("movi", chunk("00dc", second)), "RIFF"));
  const VideoFile file(folder / "a.avi");
  ASSERT_EQ(file.frames(), 2);
  EXPECT_TRUE(at::equal(file.read(0), colour));
  EXPECT_TRUE(at::equal(file.read(1), read_image(kJpegs / "progressive.jpg")));
  write_file(folder / "b.avi", avi(header, chunk("00dc", first.substr(0, first.size() / 2))));
  EXPECT_ERROR(VideoFile(folder / "b.avi").read(0), "read_video: " + folder / "b.avi" + ": frame 0: ");
}

TEST(VideoFile, ReadsYuvFrames) {
  const TemporaryFolder folder;
  // Grey stays grey: 16 is black and 235 white in the limited range.
  write_file(folder / "a.y4m", "YUV4MPEG2 W3 H1 F25:1 Ip Cmono\nFRAME\n" + std::string("\x10\x7e\xeb") + "FRAME Ip\n" +
                                   std::string("\xeb\xeb\x00", 3));
  const VideoFile mono(folder / "a.y4m");
  ASSERT_EQ(mono.frames(), 2);
  EXPECT_TRUE(at::equal(mono.read(0), at::tensor({0, 128, 255}, at::kByte).view({1, 1, 3}).expand({3, 1, 3})));
  EXPECT_EQ(mono.read(1)[0][0][2].item<int64_t>(), 0);  // clamped
  // Pure red, green and blue in BT.601, rounded to 8 bits: (81, 90, 240), (145, 54, 34), (41, 240, 110).
  write_file(folder / "b.y4m", "YUV4MPEG2 W3 H1 C444\nFRAME\n" + std::string("\x51\x91\x29\x5a\x36\xf0\xf0\x22\x6e"));
  const at::Tensor colours = VideoFile(folder / "b.y4m").read(0).select(1, 0).to(at::kLong);
  EXPECT_LE((colours - 255 * at::eye(3, at::kLong)).abs().max().item<int64_t>(), 2);
  // Full range, chroma for 2 x 2 and 1 x 2 pixels, sides that are odd.
  const auto planes = [](int64_t chroma) { return std::string(15, '\x64') + std::string(2 * chroma, '\x80'); };
  write_file(folder / "c.y4m", "YUV4MPEG2 W5 H3 C420jpeg XCOLORRANGE=FULL\nFRAME\n" + planes(6));
  write_file(folder / "d.y4m", "YUV4MPEG2 W5 H3 C422 XCOLORRANGE=FULL\nFRAME\n" + planes(9));
  for (const char* name : {"c.y4m", "d.y4m"}) {
    EXPECT_TRUE(at::equal(VideoFile(folder / name).read(0), at::full({3, 3, 5}, 100, at::kByte)));
  }
}

TEST(VideoFile, RefusesWhatIsDamaged) {
  const TemporaryFolder folder;
  const auto fails = [&](const std::string& bytes, const std::string& fault) {
    write_file(folder / "a.avi", bytes);
    EXPECT_ERROR(VideoFile(folder / "a.avi"), "read_video: " + folder / "a.avi" + ": " + fault);
  };
  const std::string whole = avi(stream(kPlain, 2, 1), chunk("00db", std::string(8, 'x')));
  EXPECT_NO_THROW((write_file(folder / "a.avi", whole), VideoFile(folder / "a.avi").read(0)));
  fails("", "expected an AVI or YUV4MPEG2 file, but it starts as neither");
  fails("RIFF", "expected an AVI or YUV4MPEG2 file, but it starts as neither");
  fails(whole.substr(0, whole.size() - 20), "chunk \"RIFF\" at byte 0 promises ");
  fails(avi("", ""), "no stream of pictures (strh of type vids, then strf) in it");
  fails(avi(stream(kPlain, 2, 1), ""), "there is no frame in it");
  fails(avi("", chunk("00db", "x")), "a frame at byte ");
  fails(avi(stream(kPlain, 2, 1), chunk("00db", "x")), "the frame at byte 210 must have 8 bytes, 2 x 1 pixels");
  fails(avi(stream(kPlain, 2, 1), chunk("00db", "")), "the first frame, at byte ");
  fails(avi(stream(kPlain, 0, 1), ""), "frames must be from 1 to 16384 pixels wide and high, got 0 x 1");
  fails(avi(stream(kPlain, 1, int64_t{1} << 31), ""),
        "frames must be from 1 to 16384 pixels wide and high, got 1 x 2147483648");
  fails(avi(stream(kPlain, 2, 1, 8), ""),
        "frames must be JPEG (MJPG) or uncompressed with 24 bits a pixel, got \"????\"");
  fails(avi(stream("H264", 2, 1), ""),
        "frames must be JPEG (MJPG) or uncompressed with 24 bits a pixel, got \"H264\" with 24");
  fails(avi(list("strl", chunk("strh", "vids") + chunk("strf", "")), ""),
        "the stream header at byte 108 must have 8 bytes, got 4");
  fails(avi(list("strl", chunk("strh", "vids" + kPlain) + chunk("strf", "x")), ""),
        "the format at byte 124 must have 40 bytes, got 1");
  std::string nested = chunk("00db", "");
  for (int i = 0; i < 12; ++i) nested = list("rec ", nested);
  fails(avi(stream(kPlain, 2, 1), nested), "lists are nested more than 8 deep");
  fails("YUV4MPEG2 W2 H1", "the line at byte 0 must end within 256 bytes");
  fails("YUV4MPEG2 W2\n", "the first line has no W and H");
  fails("YUV4MPEG2 W2 H0\n", "W and H must be from 1 to 16384, got \"H0\"");
  fails("YUV4MPEG2 W2 H1 C420p10\n", "C must be 420, 420jpeg, 420mpeg2, 420paldv, 422, 444 or mono, got \"420p10\"");
  fails("YUV4MPEG2 W2 H1 Cmono\nFRAME\nx", "the frame at byte 28 must have 2 bytes, 1 follow");
  fails("YUV4MPEG2 W2 H1 Cmono\nFRAME\nxxFROME\n", "expected FRAME at byte 30, got \"FROME\"");
  fails("YUV4MPEG2 W2 H1 Cmono\n", "there is no frame in it");
}

TEST(VideoFolder, ReadsClipsByClass) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, int64_t frames) {
    std::string text = "YUV4MPEG2 W6 H6 Cmono XCOLORRANGE=FULL\n";
    for (int64_t i = 0; i < frames; ++i) text += "FRAME\n" + std::string(36, static_cast<char>(10 * i));
    write_file(folder / name, text);
  };
  write("train/run/one.y4m", 12);
  write("train/walk/two.Y4M", 3);
  write("test/walk/three.y4m", 2);
  write_file(folder / "train/run/note.txt", "not a video");
  const VideoOptions options{.kind = "video_folder", .path = folder.path().string(), .frames = 4, .image_size = 6};
  const VideoPtr train = open_videos(options, Split::train), test = open_videos(options, Split::test);
  ASSERT_EQ(train->size(), 2);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"run", "walk"}));
  const VideoBatch batch = train->batch({0, 1});
  const at::Tensor shown = batch.clips.select(4, 0).select(3, 0).select(2, 1).to(at::kLong);
  EXPECT_TRUE(at::equal(shown, at::tensor({10, 40, 70, 100, 0, 10, 10, 20}).view({2, 4})));
  EXPECT_EQ(test->batch({0}).labels.item<int64_t>(), 1);
  write_file(folder / "train/run/one.y4m", "YUV4MPEG2\n");
  EXPECT_ERROR(open_videos(options, Split::train), "one.y4m: the first line has no W and H");
  std::filesystem::remove_all(folder / "test/walk/three.y4m");
  EXPECT_ERROR(open_videos(options, Split::test), "test: no .avi or .y4m file in its class folders");
}

}  // namespace
}  // namespace topomask::testing
