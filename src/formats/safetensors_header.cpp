#include "formats/safetensors_header.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/nearest.h"
#include "base/quote.h"

namespace makar {
namespace {

struct DTypeName {
  const char* name;
  DType type;
};
constexpr std::array kDTypes = {
    DTypeName{"F64", DType::kF64},   DTypeName{"F32", DType::kF32},         DTypeName{"F16", DType::kF16},
    DTypeName{"BF16", DType::kBF16}, DTypeName{"I64", DType::kI64},         DTypeName{"I32", DType::kI32},
    DTypeName{"I16", DType::kI16},   DTypeName{"I8", DType::kI8},           DTypeName{"U8", DType::kU8},
    DTypeName{"BOOL", DType::kBool}, DTypeName{"F8_E4M3", DType::kF8_E4M3},
};
// Dtypes of the format that are not supported here.
constexpr std::array kUnsupportedDTypes = {"F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
                                           "F6_E2M3", "F6_E3M2", "F4",          "U16",
                                           "U32",     "U64",     "C64"};

constexpr const char* kMetadataName = "__metadata__";
enum Field { kNone = 0, kDType = 1, kShape = 2, kOffsets = 4 };

class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(std::string place) : place_(std::move(place)) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool v) override { return unexpected(v ? "true" : "false"); }
  bool number_float(number_float_t, const string_t& text) override {
    return unexpected("the number " + quote(text));
  }
  bool number_integer(number_integer_t v) override { return unexpected(fmt::format("{}", v)); }
  bool number_unsigned(number_unsigned_t v) override {
    if ((at_ != At::kShape && at_ != At::kOffsets) || v > uint64_t{INT64_MAX})
      return unexpected(fmt::format("{}", v));
    const size_t limit = at_ == At::kShape ? Shape::kMaxRank : 2;
    if (count_ == limit) return at_ == At::kShape ? too_many_dims() : unexpected("more than two");
    numbers_[count_++] = static_cast<int64_t>(v);
    return true;
  }
  bool string(string_t& v) override {
    if (at_ == At::kMetadata) return header_.metadata[name_] = std::move(v), true;
    if (at_ == At::kTensor && field_ == kDType) return set_dtype(v);
    return unexpected("the string " + quote(v));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    if (at_ == At::kStart) return at_ = At::kTop, true;
    if (at_ != At::kTop) return unexpected("an object");
    at_ = name_ == kMetadataName ? At::kMetadata : At::kTensor;
    entry_ = {};
    seen_ = field_ = kNone;
    return true;
  }
  bool key(string_t& v) override {
    if (at_ == At::kTensor) return open_field(v);
    if (at_ == At::kMetadata && header_.metadata.count(v))
      return fail(error_at(place_, "the metadata key {} is given twice", quote(v)));
    if (at_ == At::kTop && v == kMetadataName && std::exchange(metadata_seen_, true))
      return fail(error_at(place_, "'{}' is given twice", kMetadataName));
    if (at_ == At::kTop) tensor_ = v;
    name_ = std::move(v);
    return true;
  }
  bool end_object() override {
    if (at_ == At::kTensor && !close_tensor()) return false;
    at_ = At::kTop;  // also after the outermost object, where the parser accepts nothing more
    return true;
  }
  bool start_array(std::size_t) override {
    if (at_ != At::kTensor || (field_ != kShape && field_ != kOffsets)) return unexpected("a list");
    at_ = field_ == kShape ? At::kShape : At::kOffsets;
    count_ = 0;
    return true;
  }
  bool end_array() override {
    if (at_ == At::kShape) {
      entry_.shape = Shape(std::span<const int64_t>(numbers_.data(), count_));
    } else {
      if (count_ != 2) return unexpected(fmt::format("{} of them", count_));
      entry_.begin = static_cast<size_t>(numbers_[0]);
      entry_.end = static_cast<size_t>(numbers_[1]);
    }
    at_ = At::kTensor;
    return true;
  }
  bool parse_error(std::size_t offset, const std::string&, const nlohmann::detail::exception&) override {
    return fail(error_at(place_,
                         "the header is not valid JSON at byte {}; the file is corrupt, download it again",
                         offset + 7));  // offsets count from one; the header starts at byte 8
  }

  SafetensorsHeader take() { return std::move(header_); }
  const Error& error() const { return error_; }

 private:
  enum class At { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

  bool fail(Error error) { return error_ = std::move(error), false; }
  bool unexpected(const std::string& found) {
    const std::string tensor = quote(tensor_);
    switch (at_) {
      case At::kStart:
        return fail(error_at(place_, "the header must be a JSON object, found {}", found));
      case At::kTop:
        return fail(error_at(place_, "{} must be an object, found {}", quote(name_), found));
      case At::kMetadata:
        return fail(
            error_at(place_, "the metadata value of {} must be a string, found {}", quote(name_), found));
      case At::kShape:
        return fail(error_at(place_, "tensor {}: dimensions must be integers from 0 to 2^63 - 1, found {}",
                             tensor, found));
      case At::kOffsets:
        return fail(error_at(place_,
                             "tensor {}: data_offsets must be two integers from 0 to 2^63 - 1, found {}",
                             tensor, found));
      case At::kTensor:
        break;
    }
    return fail(error_at(place_, "tensor {}: {} must be {}, found {}", tensor, field_name(field_),
                         field_ == kDType ? "a string" : "a list of integers", found));
  }
  static const char* field_name(int field) {
    return field == kDType ? "dtype" : field == kShape ? "shape" : "data_offsets";
  }
  bool too_many_dims() {
    return fail(error_of(Error::Kind::kUnsupported, place_, "tensor {} has more than {} dimensions",
                         quote(tensor_), Shape::kMaxRank));
  }
  bool open_field(const std::string& v) {
    field_ = v == "dtype" ? kDType : v == "shape" ? kShape : v == "data_offsets" ? kOffsets : kNone;
    if (field_ == kNone)
      return fail(error_at(place_, "tensor {}: unknown field {}; expected dtype, shape and data_offsets",
                           quote(tensor_), quote(v)));
    if (seen_ & field_) return fail(error_at(place_, "tensor {}: {} is given twice", quote(tensor_), v));
    seen_ |= field_;
    return true;
  }
  bool set_dtype(const std::string& v) {
    for (const auto& known : kDTypes)
      if (v == known.name) return entry_.dtype = known.type, true;
    if (std::find(kUnsupportedDTypes.begin(), kUnsupportedDTypes.end(), v) != kUnsupportedDTypes.end())
      return fail(
          error_of(Error::Kind::kUnsupported, place_,
                   "tensor {} has dtype {}, which is not supported; convert the model to BF16, F16 or F32",
                   quote(tensor_), v));
    std::vector<std::string> names;
    for (const auto& known : kDTypes) names.emplace_back(known.name);
    return fail(error_at(place_, "tensor {} has the unknown dtype {}; expected one of {}{}", quote(tensor_),
                         quote(v), fmt::join(names, " "), did_you_mean(v, names)));
  }
  bool close_tensor() {
    const std::string tensor = quote(tensor_);
    for (const int field : {kDType, kShape, kOffsets})
      if (!(seen_ & field)) return fail(error_at(place_, "tensor {} has no {}", tensor, field_name(field)));
    if (entry_.begin > entry_.end)
      return fail(error_at(place_, "tensor {} ends at byte {}, before its start {}", tensor, entry_.end,
                           entry_.begin));
    // Every partial product of a shape must fit, even when another dimension is zero.
    int64_t bytes = static_cast<int64_t>(size_of(entry_.dtype));
    for (const int64_t d : entry_.shape)
      if (d > 0 && __builtin_mul_overflow(bytes, d, &bytes))
        return fail(error_of(Error::Kind::kLimit, place_,
                             "tensor {} has shape {}, whose size in bytes overflows 64 bits", tensor,
                             entry_.shape.text()));
    if (entry_.shape.count() == 0) bytes = 0;
    if (entry_.end - entry_.begin != static_cast<size_t>(bytes))
      return fail(error_at(
          place_, "tensor {} of dtype {} and shape {} needs {} bytes but its data_offsets span {}", tensor,
          safetensors_name(entry_.dtype), entry_.shape.text(), bytes, entry_.end - entry_.begin));
    header_.names.push_back(tensor_);
    header_.entries.push_back(entry_);
    return true;
  }

  std::string place_;
  SafetensorsHeader header_;
  Error error_;
  At at_ = At::kStart;
  std::string tensor_, name_;  // the tensor being parsed; the last key outside tensors
  bool metadata_seen_ = false;
  SafetensorsEntry entry_;
  int field_ = kNone, seen_ = kNone;
  std::array<int64_t, Shape::kMaxRank> numbers_{};
  size_t count_ = 0;
};

}  // namespace

const char* safetensors_name(DType type) {
  for (const auto& known : kDTypes)
    if (known.type == type) return known.name;
  return "?";
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, const std::string& place) {
  // The parser would treat a zero byte as the end and ignore what follows it.
  if (const size_t zero = json.find('\0'); zero != json.npos)
    return error_at(place, "the header has a zero byte at {}; the file is corrupt, download it again",
                    zero + 8);
  if (json.empty() || json[0] != '{')
    return error_at(place,
                    "the header must start with '{{' at byte 8; the file is corrupt or not safetensors");
  Reader reader(place);
  if (!Json::sax_parse(json.begin(), json.end(), &reader)) return reader.error();
  return reader.take();
}

}  // namespace makar
