#include "formats/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "base/file_writer.h"
#include "base/json.h"
#include "base/quote.h"
#include "formats/safetensors.h"

namespace makar {
namespace {

// A JSON string; bytes that are not UTF-8 become the replacement character.
std::string json_string(const std::string& text) { return dump(Json(text)); }

Status check_names(const std::string& path, std::span<const NamedTensor> tensors) {
  std::set<std::string_view> seen;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") return error_at(path, "'__metadata__' cannot be the name of a tensor");
    if (!seen.insert(name).second) return error_at(path, "tensor {} is given twice", quote(name));
    check(tensor.defined(), "cannot write an undefined tensor: " + name);
  }
  return Done{};
}

// Indices in data order: decreasing element size, then the given order.
std::vector<size_t> data_order(std::span<const NamedTensor> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return size_of(tensors[a].tensor.dtype()) > size_of(tensors[b].tensor.dtype());
  });
  return order;
}

std::string header_of(std::span<const NamedTensor> tensors, const std::vector<size_t>& order,
                      const SafetensorsMetadata& metadata) {
  std::vector<size_t> begin(tensors.size());
  size_t at = 0;
  for (const size_t i : order) begin[i] = std::exchange(at, at + tensors[i].tensor.bytes());

  std::string out = "{", comma;
  if (!metadata.empty()) {
    out += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      out += comma + json_string(key) + ":" + json_string(value);
      comma = ",";
    }
    out += "}";
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i].tensor;
    out += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", comma,
                       json_string(tensors[i].name), safetensors_name(t.dtype()),
                       fmt::join(t.shape().begin(), t.shape().end(), ","), begin[i], begin[i] + t.bytes());
    comma = ",";
  }
  out += "}";
  out.resize((out.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8 bytes
  return out;
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                         const SafetensorsMetadata& metadata) {
  MAKAR_RETURN_IF_ERROR(check_names(path, tensors));
  const std::vector<size_t> order = data_order(tensors);
  const std::string header = header_of(tensors, order, metadata);
  if (header.size() > Safetensors::kMaxHeaderBytes)
    return error_of(Error::Kind::kLimit, path, "the header of {} tensors needs {} bytes; the limit is {}",
                    tensors.size(), header.size(), Safetensors::kMaxHeaderBytes);
  const uint64_t length = header.size();
  std::byte prefix[8];
  std::memcpy(prefix, &length, sizeof prefix);

  MAKAR_TRY(FileWriter writer, FileWriter::open(path));
  MAKAR_RETURN_IF_ERROR(writer.write(prefix));
  MAKAR_RETURN_IF_ERROR(writer.write(header));
  for (const size_t i : order) {
    const Tensor& t = tensors[i].tensor;
    MAKAR_RETURN_IF_ERROR(writer.write({t.host().raw(), t.bytes()}));
  }
  return writer.commit();
}

}  // namespace makar
