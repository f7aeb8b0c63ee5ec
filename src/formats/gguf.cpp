#include "formats/gguf.h"

#include <algorithm>
#include <numeric>

#include "base/file.h"
#include "base/shown.h"
#include "formats/gguf_header.h"

namespace makar {
namespace {

Status check_layout(const std::vector<GgufTensor>& tensors, size_t data_bytes) {
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& t : tensors) {
    if (t.end > data_bytes)
      return error_at("tensor " + shown(t.name),
                      "spans bytes {}..{} of the data but the file holds {}; the download is incomplete",
                      t.begin, t.end, data_bytes);
    order.push_back(&t);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->begin < order[i - 1]->end)
      return error_at("tensor " + shown(order[i]->name), "overlaps tensor {} at byte {} of the data",
                      shown(order[i - 1]->name), order[i]->begin);
  return Done{};
}

// A download that went wrong, told by its first bytes.
const char* impostor(std::string_view start) {
  if (start.starts_with("version https://git-lfs"))
    return "is a Git LFS pointer, not the file itself; run `git lfs pull`";
  if (start.starts_with("<!") || start.starts_with("<html")) return "is a web page; download the file itself";
  return nullptr;
}

}  // namespace

Result<Gguf::File> Gguf::open(const std::string& path) {
  MAKAR_TRY(const auto map, MappedFile::open(path));
  return parse(map->bytes(), map, path);
}

Result<Gguf::File> Gguf::parse(std::span<const std::byte> bytes, std::shared_ptr<const void> keeper,
                               std::string place) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 64));
  if (const char* what = impostor(start)) return error_at(place, "{}", what);
  auto header = parse_gguf_header(bytes);
  if (!header.ok()) return header.error().in(place);
  const size_t data_bytes = bytes.size() > header->data_begin ? bytes.size() - header->data_begin : 0;
  const Status layout = check_layout(header->tensors, data_bytes);
  if (!layout.ok()) return layout.error().in(place);

  const auto data = data_bytes > 0 ? bytes.subspan(header->data_begin) : std::span<const std::byte>();
  return of(data, std::move(keeper), std::move(place), std::move(header->fields), std::move(header->tensors));
}

Gguf::File Gguf::of(std::span<const std::byte> data, std::shared_ptr<const void> keeper, std::string place,
                    GgufFields fields, std::vector<GgufTensor> tensors) {
  auto file = std::shared_ptr<Gguf>(new Gguf);
  file->place_ = std::move(place);
  file->keeper_ = std::move(keeper);
  file->data_ = data;
  file->fields_ = std::move(fields);
  file->tensors_ = std::move(tensors);
  file->by_name_.resize(file->tensors_.size());
  std::iota(file->by_name_.begin(), file->by_name_.end(), 0u);
  std::sort(file->by_name_.begin(), file->by_name_.end(),
            [&](uint32_t a, uint32_t b) { return file->tensors_[a].name < file->tensors_[b].name; });
  return file;
}

const GgufTensor* Gguf::find(const std::string& name) const {
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t i, const std::string& n) { return tensors_[i].name < n; });
  return it != by_name_.end() && tensors_[*it].name == name ? &tensors_[*it] : nullptr;
}

Tensor Gguf::view(const GgufTensor& tensor) const {
  const std::byte* data = data_.data() + tensor.begin;
  Tensor view = Tensor::view_of(data, tensor.shape, tensor.dtype, keeper_);
  // The file's own alignment may be less than an element's.
  const size_t element = is_block(tensor.dtype) ? 1 : size_of(tensor.dtype);
  return reinterpret_cast<uintptr_t>(data) % element == 0 ? view : view.clone();
}

}  // namespace makar
