#include "formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "formats/failed_download.h"

namespace makar {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and used in place");

// The likely cause when a file is not in safetensors format.
std::string guess_content(std::string_view start) {
  if (const auto leftover = failed_download(start); !leftover.empty())
    return fmt::format("; it is {}", leftover);
  if (start.starts_with("PK") || start.starts_with("\x80\x02"))
    return "; it is a PyTorch pickle: rename it to pytorch_model.bin";
  if (start.starts_with("GGUF")) return "; it is a GGUF file";
  if (start.starts_with("{")) return "; it starts like plain JSON";
  return "; the download is incomplete or this is not a safetensors file";
}

}  // namespace

Result<Safetensors::File> Safetensors::open(const std::string& path) {
  MAKAR_TRY(auto map, MappedFile::open(path));
  const auto bytes = map->bytes();
  return parse(bytes, std::move(map), path);
}

Result<Safetensors::File> Safetensors::parse(std::span<const std::byte> bytes,
                                             std::shared_ptr<const void> owner, std::string place) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (bytes.size() < 8)
    return error_at(place,
                    "a safetensors file starts with 8 bytes of header length but this one has {} bytes{}",
                    bytes.size(), guess_content(text));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8)
    return error_at(place, "the header should have {} bytes but only {} follow its length{}", length,
                    bytes.size() - 8, guess_content(text));
  if (length > kMaxHeaderBytes)
    return error_of(Error::Kind::kLimit, place, "the header has {} bytes; at most {} are allowed", length,
                    kMaxHeaderBytes);

  std::shared_ptr<Safetensors> file(new Safetensors);
  MAKAR_TRY(file->header_, parse_safetensors_header(text.substr(8, length), place));
  file->place_ = std::move(place);
  file->owner_ = std::move(owner);
  file->data_ = bytes.subspan(8 + length);
  file->data_begin_ = 8 + length;
  MAKAR_RETURN_IF_ERROR(file->index_names());
  MAKAR_RETURN_IF_ERROR(file->check_layout());
  return File(file);
}

Status Safetensors::index_names() {
  const auto& names = header_.names;
  by_name_.resize(names.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(), [&](uint32_t a, uint32_t b) { return names[a] < names[b]; });
  const auto duplicate = std::adjacent_find(by_name_.begin(), by_name_.end(),
                                            [&](uint32_t a, uint32_t b) { return names[a] == names[b]; });
  if (duplicate != by_name_.end())
    return error_at(place_, "tensor {} is given twice", quote(names[*duplicate]));
  return Done{};
}

Status Safetensors::check_layout() const {
  const auto& entries = header_.entries;
  const auto span = [&](uint32_t i) {
    return fmt::format("tensor {} spans bytes {}..{}", quote(header_.names[i]),
                       data_begin_ + entries[i].begin, data_begin_ + entries[i].end);
  };
  const size_t file_end = data_begin_ + data_.size();
  std::vector<uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(entries[a].begin, entries[a].end) < std::pair(entries[b].begin, entries[b].end);
  });
  size_t at = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const auto& e = entries[order[k]];
    if (e.begin < at)
      return error_at(place_, "{} but {}: they overlap; the file is corrupt", span(order[k - 1]),
                      span(order[k]));
    if (e.end > data_.size())
      return error_at(place_, "{} but the file ends at {}; the download is incomplete", span(order[k]),
                      file_end);
    if (e.begin > at)
      return error_at(place_, "{} but the data before it ends at {}: {} bytes belong to no tensor",
                      span(order[k]), data_begin_ + at, e.begin - at);
    at = e.end;
  }
  if (at != data_.size())
    return error_at(place_,
                    "the last tensor ends at byte {} but the file has {} bytes: {} bytes belong to no tensor",
                    data_begin_ + at, file_end, data_.size() - at);
  return Done{};
}

const Safetensors::Entry* Safetensors::entry(const std::string& name) const {
  const auto& names = header_.names;
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t i, const std::string& n) { return names[i] < n; });
  return it != by_name_.end() && names[*it] == name ? &header_.entries[*it] : nullptr;
}

Result<Tensor> Safetensors::tensor(const std::string& name) const {
  const Entry* e = entry(name);
  if (!e)
    return error_of(Error::Kind::kNotFound, place_, "has no tensor {}{}", quote(name),
                    names().size() <= kMaxNamesToSuggest ? did_you_mean(name, names()) : "");
  const std::byte* data = data_.data() + e->begin;
  if (reinterpret_cast<uintptr_t>(data) % size_of(e->dtype) == 0)
    return Tensor::view_of(data, e->shape, e->dtype, owner_);
  Tensor copy = Tensor::empty(e->shape, e->dtype);
  std::memcpy(copy.raw(), data, copy.bytes());
  return copy;
}

}  // namespace makar
