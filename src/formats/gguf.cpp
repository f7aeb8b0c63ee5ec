#include "formats/gguf.h"

#include <algorithm>
#include <numeric>

#include "base/file.h"
#include "base/quote.h"
#include "formats/failed_download.h"
#include "formats/gguf_header.h"
#include "formats/gguf_split.h"

namespace makar {
namespace {

Status check_layout(const std::vector<GgufTensor>& tensors, size_t data_bytes) {
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& t : tensors) {
    if (t.end > data_bytes)
      return error_at(
          "tensor " + quote(t.name),
          "spans bytes {}..{} of the data but the data section has {}; the download is incomplete", t.begin,
          t.end, data_bytes);
    order.push_back(&t);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->begin < order[i - 1]->end)
      return error_at("tensor " + quote(order[i]->name), "overlaps tensor {} at byte {} of the data",
                      quote(order[i - 1]->name), order[i]->begin);
  return Done{};
}

}  // namespace

Result<Gguf::File> Gguf::open(const std::string& path) {
  MAKAR_TRY(const auto map, MappedFile::open(path));
  MAKAR_TRY(const File file, parse(map->bytes(), map, path));
  MAKAR_TRY(const std::vector<std::string> others, gguf_split_paths(file->fields(), path));
  if (others.empty()) return file;
  std::vector<File> files = {file};
  for (const std::string& other : others) {
    MAKAR_TRY(const auto part, MappedFile::open(other));
    MAKAR_TRY(const File next, parse(part->bytes(), part, other));
    MAKAR_RETURN_IF_ERROR(check_gguf_part(next->fields(), other, files.size(), others.size() + 1));
    files.push_back(next);
  }
  return join(files);
}

Result<Gguf::File> Gguf::parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                               std::string place) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 64));
  if (const auto leftover = failed_download(start); !leftover.empty())
    return error_at(place, "is {}", leftover);
  auto header = parse_gguf_header(bytes);
  if (!header.ok()) return header.error().in(place);
  const size_t data_bytes = bytes.size() > header->data_begin ? bytes.size() - header->data_begin : 0;
  const Status layout = check_layout(header->tensors, data_bytes);
  if (!layout.ok()) return layout.error().in(place);

  const auto data = data_bytes > 0 ? bytes.subspan(header->data_begin) : std::span<const std::byte>();
  return of(data, std::move(owner), std::move(place), std::move(header->fields), std::move(header->tensors));
}

Gguf::File Gguf::of(std::span<const std::byte> data, std::shared_ptr<const void> owner, std::string place,
                    GgufFields fields, std::vector<GgufTensor> tensors) {
  auto file = std::shared_ptr<Gguf>(new Gguf);
  file->place_ = std::move(place);
  file->data_ = {{data, std::move(owner)}};
  file->fields_ = std::move(fields);
  file->tensors_ = std::move(tensors);
  file->sort_names();
  return file;
}

Result<Gguf::File> Gguf::join(const std::vector<File>& files) {
  auto model = std::shared_ptr<Gguf>(new Gguf);
  model->place_ = files[0]->place_;
  model->fields_ = files[0]->fields_;
  for (const char* key : {kSplitNumber, kSplitCount, kSplitTensors}) model->fields_.erase(key);
  for (size_t i = 0; i < files.size(); ++i) {
    model->data_.push_back(files[i]->data_[0]);
    for (GgufTensor t : files[i]->tensors_) {
      t.file = i;
      model->tensors_.push_back(std::move(t));
    }
  }
  model->sort_names();
  for (size_t i = 1; i < model->by_name_.size(); ++i) {
    const GgufTensor &a = model->tensors_[model->by_name_[i - 1]], &b = model->tensors_[model->by_name_[i]];
    if (a.name == b.name)
      return error_at(files[b.file]->place(),
                      "has tensor {}, which {} has too; the files belong to different models", quote(a.name),
                      quote(files[a.file]->place()));
  }
  const auto declared_tensors = files[0]->fields_.integer(kSplitTensors);
  if (declared_tensors && *declared_tensors != static_cast<int64_t>(model->tensors_.size()))
    return error_at(model->place_,
                    "key '{}' is {} but its {} files have {} tensors; the files belong to different models",
                    kSplitTensors, *declared_tensors, files.size(), model->tensors_.size());
  return File(model);
}

void Gguf::sort_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
}

size_t Gguf::data_bytes() const {
  size_t bytes = 0;
  for (const Data& d : data_) bytes += d.bytes.size();
  return bytes;
}

const GgufTensor* Gguf::find(const std::string& name) const {
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t i, const std::string& n) { return tensors_[i].name < n; });
  return it != by_name_.end() && tensors_[*it].name == name ? &tensors_[*it] : nullptr;
}

Tensor Gguf::view(const GgufTensor& tensor) const {
  const std::byte* data = data_[tensor.file].bytes.data() + tensor.begin;
  Tensor view = Tensor::view_of(data, tensor.shape, tensor.dtype, data_[tensor.file].owner);
  // The alignment of the file may be less than that of an element.
  const size_t element = is_block(tensor.dtype) ? 1 : size_of(tensor.dtype);
  return reinterpret_cast<uintptr_t>(data) % element == 0 ? view : view.clone();
}

}  // namespace makar
