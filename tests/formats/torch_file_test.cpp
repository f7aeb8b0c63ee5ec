#include "formats/torch_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "base/rng.h"

namespace makar {
namespace {

std::string golden(const std::string& name) {
  return std::string(MAKAR_TEST_GOLDEN) + "/packed/" + name + "/pytorch_model.bin";
}

Result<TorchFile::File> parse(const std::string& bytes) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return TorchFile::parse({reinterpret_cast<const std::byte*>(copy->data()), copy->size()}, copy, "test.bin");
}

void expect_error(const std::string& bytes, const std::string& message) {
  const auto file = parse(bytes);
  ASSERT_FALSE(file.ok()) << message;
  EXPECT_NE(file.error().text().find(message), std::string::npos) << file.error().text();
}

// --- a file of the older format, built from pickle instructions ---

std::string text(const std::string& s) {
  const auto n = static_cast<uint32_t>(s.size());
  return "X" + std::string(reinterpret_cast<const char*>(&n), 4) + s;
}
std::string small_integer(int v) { return {'K', static_cast<char>(v)}; }
const std::string kProtocol2 = "\x80\x02",
                  kMagic = kProtocol2 + "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                  kVersion = kProtocol2 + "M\xe9\x03.", kMachine = kProtocol2 + "}.";
const std::string kRebuild = "ctorch._utils\n_rebuild_tensor_v2\n";

std::string storage(int count, const std::string& type = "FloatStorage") {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text("0") + text("cpu") + small_integer(count) +
         "Nt" + "Q";
}
// A state dict with the tensor "w" of six values 0 .. 5.
std::string file_of(const std::string& tensor) {
  std::string bytes = kMagic + kVersion + kMachine + kProtocol2 + "}" + text("w") + tensor + "s." +
                      kProtocol2 + "]" + text("0") + "a.";
  const int64_t count = 6;
  bytes.append(reinterpret_cast<const char*>(&count), 8);
  for (int i = 0; i < 6; ++i) {
    const auto v = static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&v), 4);
  }
  return bytes;
}
std::string tensor_of(const std::string& storage_bytes, int offset, const std::string& size,
                      const std::string& stride) {
  return kRebuild + "(" + storage_bytes + small_integer(offset) + size + stride + "\x89}tR";
}

TEST(TorchFile, BothContainersHoldTheSameTensors) {
  const auto zip = TorchFile::open(golden("pickle-zip")), legacy = TorchFile::open(golden("pickle-legacy"));
  ASSERT_TRUE(zip.ok()) << zip.error().text();
  ASSERT_TRUE(legacy.ok()) << legacy.error().text();
  ASSERT_EQ((*zip)->names(), (*legacy)->names());
  EXPECT_GT((*zip)->names().size(), 10u);
  for (const auto& name : (*zip)->names()) {
    const auto a = (*zip)->tensor(name), b = (*legacy)->tensor(name);
    ASSERT_TRUE(a.ok() && b.ok()) << name;
    ASSERT_EQ(a->bytes(), b->bytes());
    EXPECT_EQ(std::memcmp(a->raw(), b->raw(), a->bytes()), 0) << name;
  }
}

TEST(TorchFile, CodeIsRefusedByName) {
  const auto file = TorchFile::open(golden("pickle-hostile"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, Error::Kind::kUnsupported);
  EXPECT_NE(file.error().text().find("posix.system"), std::string::npos) << file.error().text();
  for (const char* name : {"builtins\neval", "os\nsystem", "torch\nload", "torch._utils\n_rebuild_tensor_v9",
                           "torch.storage\n_load_from_bytes", "nt\nsystem"}) {
    std::string dotted_name = name;
    dotted_name[dotted_name.find('\n')] = '.';
    expect_error(kMagic + kVersion + kMachine + kProtocol2 + "c" + name + "\n" + text("x") + "\x85R.",
                 dotted_name);
    // The same name from the stack.
    const std::string function = name;
    const size_t separator = function.find('\n');
    expect_error(kMagic + kVersion + kMachine + "\x80\x04" + text(function.substr(0, separator)) +
                     text(function.substr(separator + 1)) + "\x93" + text("x") + "\x85R.",
                 dotted_name);
  }
  for (const char* op : {"(ios\nsystem\n.", "(\x81.", "(o.", "\x82\x01."})
    expect_error(kMagic + kVersion + kMachine + kProtocol2 + op, "creates an object");
}

TEST(TorchFile, StridesAreApplied) {
  const std::string two_three = small_integer(2) + small_integer(3) + "\x86",
                    one_two = small_integer(1) + small_integer(2) + "\x86";
  const auto file = parse(file_of(tensor_of(storage(6), 0, two_three, one_two)));
  ASSERT_TRUE(file.ok()) << file.error().text();
  const auto w = (*file)->tensor("w");
  ASSERT_TRUE(w.ok());
  EXPECT_EQ(w->shape(), (Shape{2, 3}));
  const float expected[] = {0, 2, 4, 1, 3, 5};  // the transposed matrix of 0 .. 5
  for (int i = 0; i < 6; ++i) EXPECT_EQ(w->f32()[i], expected[i]);
}

TEST(TorchFile, TensorsStayInsideTheirStorage) {
  const std::string six = small_integer(6) + "\x85", one = small_integer(1) + "\x85",
                    two = small_integer(2) + "\x85", zero = small_integer(0) + "\x85";
  expect_error(file_of(tensor_of(storage(6), 1, six, one)), "past the end of its storage");
  expect_error(file_of(tensor_of(storage(6), 0, small_integer(4) + "\x85", two)),
               "past the end of its storage");
  expect_error(file_of(tensor_of(storage(7), 0, six, one)), "too short");
  expect_error(file_of(tensor_of(storage(6), 0, small_integer(100) + "\x85", zero)),
               "more elements than its storage");
  expect_error(file_of(tensor_of(storage(6), 0, six, small_integer(1) + small_integer(1) + "\x86")),
               "stride");
  expect_error(file_of(tensor_of(storage(6, "ComplexFloatStorage"), 0, six, one)),
               "torch.ComplexFloatStorage");
  expect_error(file_of(small_integer(3)), "is not used by a tensor");
  expect_error(kMagic + kVersion + kMachine + kProtocol2 + "].", "download");
  expect_error(kProtocol2 + "].", "not written by torch.save");
}

// Every mutated file gives an error, or tensors that can be read to the last byte.
TEST(TorchFile, MutatedFilesGiveErrorsOrTensors) {
  int refused = 0;
  for (const char* name : {"pickle-zip", "pickle-legacy", "pickle-hostile"}) {
    const std::string valid = *read_file(golden(name));
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const Rng rng(seed, Purpose::kSynthetic);
      const auto draw = [&](uint64_t i, size_t below) {
        return static_cast<size_t>(rng.uniform(i) * static_cast<float>(below));
      };
      std::string bytes = valid;
      // The pickle is at the start of both containers, the zip directory at the end.
      const size_t head = std::min<size_t>(bytes.size(), 6000);
      for (uint64_t k = 0; k < 1 + seed % 5; ++k) {
        const size_t at = seed % 3 == 0 ? bytes.size() - 1 - draw(2 * k, head - 1) : draw(2 * k, head);
        bytes[at] = static_cast<char>(draw(2 * k + 1, 256));
      }
      if (seed % 7 == 0) bytes.resize(draw(99, bytes.size()));
      const auto file = parse(bytes);
      if (!file.ok()) {
        ++refused;
        ASSERT_LT(file.error().text().size(), 1000u);
        continue;
      }
      for (const auto& tensor : (*file)->names()) ASSERT_TRUE((*file)->tensor(tensor)->clone().defined());
    }
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace makar
