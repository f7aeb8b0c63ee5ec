#include "formats/gguf_header.h"

#include <cstring>
#include <unordered_set>

#include "base/quote.h"

namespace makar {
namespace {

constexpr int kMaxArrayDepth = 4;            // nesting of arrays
constexpr uint64_t kMaxNameBytes = 1 << 16;  // of a key or of the name of a tensor
constexpr int64_t kMaxElements = int64_t{1} << 46;

// makar's own type. Its number is far from those of ggml, so that other programs refuse a file that has it.
constexpr uint32_t kQ8_24Number = 0x4d4b24;

struct TypeRow {
  uint32_t number;
  DType type;
};
constexpr TypeRow kTypes[] = {{0, DType::kF32},      {1, DType::kF16},
                              {2, DType::kQ4_0},     {3, DType::kQ4_1},
                              {6, DType::kQ5_0},     {7, DType::kQ5_1},
                              {8, DType::kQ8_0},     {10, DType::kQ2_K},
                              {11, DType::kQ3_K},    {12, DType::kQ4_K},
                              {13, DType::kQ5_K},    {14, DType::kQ6_K},
                              {16, DType::kIQ2_XXS}, {20, DType::kIQ4_NL},
                              {23, DType::kIQ4_XS},  {24, DType::kI8},
                              {25, DType::kI16},     {26, DType::kI32},
                              {27, DType::kI64},     {28, DType::kF64},
                              {30, DType::kBF16},    {kQ8_24Number, DType::kQ8_24}};

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  std::string place() const { return fmt::format("byte {}", at_); }

  template <class T>
  Result<T> get() {
    if (left() < sizeof(T)) return truncated(sizeof(T));
    T v;
    std::memcpy(&v, bytes_.data() + at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  Result<std::string_view> take(uint64_t size) {
    if (size > left()) return truncated(size);
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return out;
  }
  Result<std::string_view> text() {
    MAKAR_TRY(const uint64_t size, get<uint64_t>());
    return take(size);
  }
  std::string_view since(size_t begin) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + begin, at_ - begin};
  }

 private:
  Error truncated(uint64_t size) const {
    return error_at(place(), "expected {} more bytes, found {}; the file is truncated or not GGUF", size,
                    left());
  }
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

Status walk_array(Cursor& in, int depth);

// Skips one value of the given kind and checks it.
Status walk(Cursor& in, uint32_t kind, int depth) {
  if (!is_known(kind))
    return error_at(in.place(), "unknown value kind {}; GGUF defines the kinds 0 to 12", kind);
  const auto k = static_cast<GgufKind>(kind);
  if (k == GgufKind::kArray) return walk_array(in, depth + 1);
  const auto bytes = k == GgufKind::kString ? in.text() : in.take(size_of(k));
  if (!bytes.ok()) return bytes.error();
  return Done{};
}

Status walk_array(Cursor& in, int depth) {
  if (depth > kMaxArrayDepth)
    return error_of(Error::Kind::kLimit, in.place(), "arrays are nested more than {} deep", kMaxArrayDepth);
  MAKAR_TRY(const uint32_t element, in.get<uint32_t>());
  MAKAR_TRY(const uint64_t count, in.get<uint64_t>());
  if (!is_known(element))
    return error_at(in.place(), "an array of unknown kind {}; GGUF defines the kinds 0 to 12", element);
  const auto k = static_cast<GgufKind>(element);
  // The smallest size of an element: the bytes of a number, the length of a string, the head of an array.
  const size_t min = size_of(k) ? size_of(k) : k == GgufKind::kString ? 8 : 12;
  if (count > in.left() / min)
    return error_at(in.place(),
                    "an array of {} {} values needs more than the {} bytes left; the file is truncated",
                    count, name(k), in.left());
  if (size_of(k)) {
    MAKAR_TRY([[maybe_unused]] const auto bytes, in.take(count * size_of(k)));
    return Done{};
  }
  for (uint64_t i = 0; i < count; ++i) MAKAR_RETURN_IF_ERROR(walk(in, element, depth));
  return Done{};
}

Result<std::string> read_name(Cursor& in, const char* what) {
  const std::string place = in.place();
  MAKAR_TRY(const uint64_t size, in.get<uint64_t>());
  if (size > kMaxNameBytes)
    return error_of(Error::Kind::kLimit, place, "{} of {} bytes; the limit is {}", what, size, kMaxNameBytes);
  MAKAR_TRY(const std::string_view text, in.take(size));
  if (text.empty()) return error_at(place, "{} is empty", what);
  return std::string(text);
}

Result<GgufFields> read_fields(Cursor& in, uint64_t count) {
  GgufFields::List list;
  std::unordered_set<std::string> seen;
  for (uint64_t i = 0; i < count; ++i) {
    MAKAR_TRY(std::string key, read_name(in, "a key"));
    MAKAR_TRY(const uint32_t kind, in.get<uint32_t>());
    const size_t begin = in.at();
    const Status status = walk(in, kind, 0);
    if (!status.ok()) return status.error().in("key " + quote(key));
    if (!seen.insert(key).second) return error_at("key " + quote(key), "is given twice");
    list.emplace_back(std::move(key), GgufValue(static_cast<GgufKind>(kind), std::string(in.since(begin))));
  }
  return GgufFields(std::move(list));
}

Result<DType> read_type(uint32_t number) {
  for (const TypeRow& row : kTypes)
    if (row.number == number) return row.type;
  return error_of(
      Error::Kind::kUnsupported, "",
      "has ggml type {}, which is not supported; quantize the model again to a type such as Q4_K or Q8_0",
      number);
}

// The file stores the fastest dimension first. Empty dimensions and more than 2^46 elements are refused.
Result<Shape> read_shape(Cursor& in) {
  MAKAR_TRY(const uint32_t rank, in.get<uint32_t>());
  if (rank < 1 || rank > 4) return error_at("", "has {} dimensions; expected 1 to 4", rank);
  std::vector<int64_t> dims(rank);
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    MAKAR_TRY(const uint64_t dim, in.get<uint64_t>());
    if (dim < 1) return error_at("", "has an empty dimension");
    if (dim > static_cast<uint64_t>(kMaxElements / count))
      return error_of(Error::Kind::kLimit, "", "has more than 2^46 elements");
    count *= static_cast<int64_t>(dim);
    dims[rank - 1 - i] = static_cast<int64_t>(dim);
  }
  return Shape(std::span<const int64_t>(dims));
}

Result<GgufTensor> read_tensor(Cursor& in, const std::string& name, size_t alignment) {
  GgufTensor t;
  t.name = name;
  MAKAR_TRY(t.shape, read_shape(in));
  MAKAR_TRY(const uint32_t number, in.get<uint32_t>());
  MAKAR_TRY(t.dtype, read_type(number));
  const int64_t block = layout_of(t.dtype).elements;
  if (t.shape[-1] % block != 0)
    return error_at("", "has rows of {} values, expected a multiple of the {} block size {}", t.shape[-1],
                    makar::name(t.dtype), block);
  MAKAR_TRY(const uint64_t offset, in.get<uint64_t>());
  if (offset % alignment != 0)
    return error_at("", "starts at byte {} of the data, expected a multiple of the alignment {}", offset,
                    alignment);
  const size_t bytes = bytes_of(t.dtype, t.shape.count());
  if (offset > SIZE_MAX - bytes)
    return error_at("", "starts at byte {} of the data, beyond any file", offset);
  t.begin = offset, t.end = offset + bytes;
  return t;
}

Result<size_t> read_alignment(const GgufFields& fields) {
  const GgufValue* value = fields.find("general.alignment");
  if (!value) return kGgufDefaultAlignment;
  const auto n = value->integer();
  if (!n || *n < 1 || *n > 1 << 20 || (*n & (*n - 1)) != 0)
    return error_at("key 'general.alignment'", "must be a power of two up to 1048576, found {}",
                    value->description());
  return static_cast<size_t>(*n);
}

Result<uint32_t> read_version(Cursor& in) {
  const auto magic = in.take(4);
  if (!magic.ok() || *magic != "GGUF")
    return error_at("byte 0", "not a GGUF file: expected 'GGUF' at the start, found {}",
                    quote(in.since(0), 4));
  MAKAR_TRY(const uint32_t version, in.get<uint32_t>());
  if (version == 2 || version == 3) return version;
  const bool big_endian = version != 0 && (version & 0xffff) == 0;
  return error_of(Error::Kind::kUnsupported, "byte 4", "{}",
                  big_endian
                      ? std::string("the file is big-endian; convert it on a little-endian machine")
                      : fmt::format("GGUF version {} is not supported; versions 2 and 3 are", version));
}

}  // namespace

int32_t gguf_type(DType type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return static_cast<int32_t>(row.number);
  return -1;
}

Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes) {
  Cursor in(bytes);
  MAKAR_RETURN_IF_ERROR(read_version(in));
  MAKAR_TRY(const uint64_t tensors, in.get<uint64_t>());
  MAKAR_TRY(const uint64_t keys, in.get<uint64_t>());
  if (tensors > kMaxGgufTensors)
    return error_of(Error::Kind::kLimit, "byte 8", "has {} tensors; the limit is {}", tensors,
                    kMaxGgufTensors);
  if (keys > kMaxGgufKeys)
    return error_of(Error::Kind::kLimit, "byte 16", "has {} keys; the limit is {}", keys, kMaxGgufKeys);
  GgufHeader header;
  MAKAR_TRY(header.fields, read_fields(in, keys));
  MAKAR_TRY(header.alignment, read_alignment(header.fields));
  std::unordered_set<std::string> seen;
  for (uint64_t i = 0; i < tensors; ++i) {
    MAKAR_TRY(const std::string name, read_name(in, "the name of a tensor"));
    auto tensor = read_tensor(in, name, header.alignment);
    if (!tensor.ok()) return tensor.error().in("tensor " + quote(name));
    if (!seen.insert(name).second) return error_at("tensor " + quote(name), "is given twice");
    header.tensors.push_back(std::move(*tensor));
  }
  header.data_begin = (in.at() + header.alignment - 1) / header.alignment * header.alignment;
  return header;
}

}  // namespace makar
