// A model split over several GGUF files: reading it, and errors in the set of files.
#include "formats/gguf_split.h"

#include <gtest/gtest.h>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

// Three files of one tensor each, "t0" to "t2", whose first value is its index.
class GgufSplitFiles : public testing::Test {
 protected:
  std::string path(int i) const { return folder_ / fmt::format("m-{:05}-of-00003.gguf", i + 1); }
  void write(int i, int number, int count, const std::string& tensor, int declared = 3) {
    GgufFields fields;
    if (i == 0) fields.set("general.architecture", GgufValue::text("llama"));
    fields.set("split.no", GgufValue::u32(static_cast<uint32_t>(number)));
    fields.set("split.count", GgufValue::u32(static_cast<uint32_t>(count)));
    fields.set("split.tensors.count", GgufValue::u32(static_cast<uint32_t>(declared)));
    const Tensor t = Tensor::from({2}, std::vector<float>{static_cast<float>(i), 7.0f});
    ASSERT_TRUE(
        write_gguf(path(i), fields, {{tensor, t.dtype(), t.shape(), [t]() -> Result<Tensor> { return t; }}})
            .ok());
  }
  void SetUp() override {
    for (int i = 0; i < 3; ++i) write(i, i, 3, "t" + std::to_string(i));
  }
  void expect_error(const std::string& file, const std::vector<std::string>& parts) {
    const auto opened = Gguf::open(file);
    ASSERT_FALSE(opened.ok()) << parts[0];
    for (const std::string& part : parts)
      EXPECT_NE(opened.error().text().find(part), std::string::npos) << opened.error().text();
  }
  ScratchFolder folder_;
};

TEST_F(GgufSplitFiles, ReadAsOneFile) {
  const auto model = Gguf::open(path(0));
  ASSERT_TRUE(model.ok()) << model.error().text();
  EXPECT_EQ((*model)->fields().list().size(), 1u);  // no split keys are left
  ASSERT_EQ((*model)->tensors().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const GgufTensor* t = (*model)->find("t" + std::to_string(i));
    ASSERT_TRUE(t);
    EXPECT_EQ((*model)->view(*t).f32()[0], static_cast<float>(i));
  }
}

TEST_F(GgufSplitFiles, OpeningAnotherFileNamesTheFirst) {
  expect_error(path(1), {"file 2 of 3", "m-00001-of-00003.gguf"});
}
TEST_F(GgufSplitFiles, AMissingFileIsNamed) {
  std::filesystem::remove(path(2));
  expect_error(path(0), {"m-00003-of-00003.gguf", "is missing"});
}
TEST_F(GgufSplitFiles, AWrongFileNameIsAnError) {
  std::filesystem::rename(path(0), folder_ / "x.gguf");
  expect_error(folder_ / "x.gguf", {"x.gguf", "-00001-of-00003.gguf"});
}
TEST_F(GgufSplitFiles, FilesThatDisagreeAreErrors) {
  write(1, 2, 3, "t1");
  expect_error(path(0), {"m-00002-of-00003.gguf", "must be file 2 of 3"});
  write(1, 1, 4, "t1");
  expect_error(path(0), {"must be file 2 of 3"});
  write(1, 1, 3, "t0");
  expect_error(path(0), {"'t0'", "different models"});
  write(1, 1, 3, "t1");
  write(0, 0, 3, "t0", 5);
  expect_error(path(0), {"split.tensors.count", "is 5", "3 tensors"});
  write(0, 0, 100000000, "t0");
  expect_error(path(0), {"at most 4096"});
}
TEST_F(GgufSplitFiles, ABrokenFileIsNamed) {
  folder_.write("m-00002-of-00003.gguf", "GGUF");
  expect_error(path(0), {"m-00002-of-00003.gguf", "truncated"});
}

TEST(GgufSplit, OtherFilesAreRecognisedByName) {
  EXPECT_TRUE(is_further_gguf_part("a/m-00002-of-00003.gguf"));
  for (const char* name : {"m-00001-of-00003.gguf", "m.gguf", "m-0002-of-0003.gguf", "m-00002-of-00003.bin",
                           "-00002-of-0003x.gguf", ".gguf", ""})
    EXPECT_FALSE(is_further_gguf_part(name)) << name;
}

}  // namespace
}  // namespace makar
