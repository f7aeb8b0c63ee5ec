#include "formats/torch_file.h"

#include <cstring>
#include <functional>
#include <set>

#include "base/file.h"
#include "base/quote.h"
#include "formats/failed_download.h"
#include "formats/pickle.h"
#include "formats/zip_index.h"

namespace makar {
namespace {

using Kind = PickleValue::Kind;

struct StorageType {
  std::string_view name;
  DType type;
};
constexpr StorageType kStorageTypes[] = {
    {"torch.FloatStorage", DType::kF32},     {"torch.HalfStorage", DType::kF16},
    {"torch.BFloat16Storage", DType::kBF16}, {"torch.DoubleStorage", DType::kF64},
    {"torch.LongStorage", DType::kI64},      {"torch.IntStorage", DType::kI32},
    {"torch.ShortStorage", DType::kI16},     {"torch.CharStorage", DType::kI8},
    {"torch.ByteStorage", DType::kU8},       {"torch.BoolStorage", DType::kBool},
};
constexpr size_t kMaxTensorNameBytes = 4096;
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2",
                           kRebuildParameter = "torch._utils._rebuild_parameter";

bool is_allowed_global(std::string_view name) {
  for (const StorageType& s : kStorageTypes)
    if (name == s.name) return true;
  return name == kRebuildTensor || name == kRebuildParameter || name == "collections.OrderedDict" ||
         name == "torch.Size";
}

const StorageType* storage_type(const PickleValue& v) {
  for (const StorageType& s : kStorageTypes)
    if (v.kind == Kind::kGlobal && v.text == s.name) return &s;
  return nullptr;
}

// The older format starts with these two numbers, the magic number first.
constexpr int64_t kLegacyVersion = 1001;
constexpr std::string_view kLegacyMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);

}  // namespace

// Reads the pickles of a file and adds the tensors that they describe to `file`.
class TorchReader {
 public:
  TorchReader(TorchFile& file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  Status run() {
    const std::string_view start(reinterpret_cast<const char*>(bytes_.data()),
                                 std::min<size_t>(bytes_.size(), 64));
    if (const auto leftover = failed_download(start); !leftover.empty())
      return error_at(place(), "is {}", leftover);
    return start.starts_with("PK") ? read_archive() : read_legacy();
  }

 private:
  const std::string& place() const { return file_.place_; }
  Error tensor_error(const std::string& name, const char* what) const {
    return error_at(place(), "the entry {} {}; expected a state dict of tensors", quote(name), what);
  }

  Status read_archive() {
    MAKAR_TRY(const ZipFiles files, read_zip_index(bytes_, place()));
    std::string folder;
    for (const auto& [name, bytes] : files)
      if (name.ends_with("/data.pkl") && name.find('/') == name.size() - 9)
        folder = name.substr(0, name.size() - 8);
    if (folder.empty())
      return error_at(place(), "the zip archive has no data.pkl; it was not written by torch.save");
    if (files.count(folder + "constants.pkl"))
      return error_of(Error::Kind::kUnsupported, place(),
                      "is a TorchScript program; save the state dict of the model with torch.save instead");
    if (const auto it = files.find(folder + "byteorder");
        it != files.end() && it->second.size() == 3)  // "big"
      return error_of(Error::Kind::kUnsupported, place(),
                      "was written on a big-endian machine; save it again on a little-endian one");
    MAKAR_TRY(const Pickle pickle,
              read_pickle(files.at(folder + "data.pkl"), place() + ": data.pkl", is_allowed_global));
    find_storage_ = [&](const std::string& key) -> const std::span<const std::byte>* {
      const auto it = files.find(folder + "data/" + key);
      return it == files.end() ? nullptr : &it->second;
    };
    return read_root(*pickle.root);
  }

  // A magic number, the version, a description of the machine, the state dict, and the keys of the storages
  // are five pickles; then each storage is its number of elements and its bytes.
  Status read_legacy() {
    size_t at = 0;
    const auto next = [&]() -> Result<Pickle> {
      MAKAR_TRY(Pickle p, read_pickle(bytes_.subspan(at), place(), is_allowed_global));
      at += p.bytes;
      return p;
    };
    MAKAR_TRY(const Pickle magic, next());
    if (magic.root->kind != Kind::kBigInteger || magic.root->text != kLegacyMagic)
      return error_at(place(), "is a pickle that was not written by torch.save");
    MAKAR_TRY(const Pickle version, next());
    if (version.root->kind != Kind::kInteger || version.root->integer != kLegacyVersion)
      return error_of(
          Error::Kind::kUnsupported, place(),
          "has an unknown version of PyTorch's older format; save it again with a current PyTorch");
    MAKAR_TRY(const Pickle machine, next());
    for (const auto& [key, value] : machine.root->pairs)
      if (key->text == "little_endian" && value->integer == 0)
        return error_of(Error::Kind::kUnsupported, place(),
                        "was written on a big-endian machine; save it again on a little-endian one");
    MAKAR_TRY(const Pickle pickle, next());
    MAKAR_TRY(const Pickle keys, next());
    // The element size of a storage is known from the tensors that use it.
    std::map<std::string, size_t> sizes;
    for (const PickleValue& v : pickle.values)
      if (v.kind == Kind::kStorage && v.arguments->items.size() >= 5)
        if (const StorageType* type = storage_type(*v.arguments->items[1]))
          sizes.emplace(v.arguments->items[2]->text, size_of(type->type));
    std::map<std::string, std::span<const std::byte>> storages;
    for (const PickleValue* key : keys.root->items) {
      const auto size = sizes.find(key->text);
      uint64_t count = 0;
      if (key->kind != Kind::kText || size == sizes.end() || bytes_.size() - at < 8)
        return error_at(
            place(), "the storage {} at byte {} is not used by a tensor or is truncated; the file is corrupt",
            quote(key->text), at);
      std::memcpy(&count, bytes_.data() + at, 8);
      at += 8;
      if (count > (bytes_.size() - at) / size->second)
        return error_at(
            place(),
            "the storage {} at byte {} has {} elements, more than the file; the download is incomplete",
            quote(key->text), at, count);
      storages.emplace(key->text, bytes_.subspan(at, count * size->second));
      at += count * size->second;
    }
    find_storage_ = [&](const std::string& key) -> const std::span<const std::byte>* {
      const auto it = storages.find(key);
      return it == storages.end() ? nullptr : &it->second;
    };
    return read_root(*pickle.root);
  }

  Status read_root(const PickleValue& root) {
    const PickleValue* dict = &root;
    // Checkpoints of training programs hold the weights below one key.
    for (const auto& [key, value] : root.pairs)
      if (key->kind == Kind::kText && value->kind == Kind::kDict &&
          (key->text == "state_dict" || key->text == "model"))
        dict = value;
    if (dict->kind != Kind::kDict) return error_at(place(), "the pickle is not a dictionary of tensors");
    for (const auto& [key, value] : dict->pairs) {
      if (key->kind != Kind::kText || key->text.size() > kMaxTensorNameBytes)
        return error_at(place(), "a key of the state dict is not a string of at most {} bytes",
                        kMaxTensorNameBytes);
      MAKAR_RETURN_IF_ERROR(read_tensor(key->text, *value, 0));
    }
    if (file_.names_.empty()) return error_at(place(), "the state dict has no tensors");
    return Done{};
  }

  Status read_tensor(const std::string& name, const PickleValue& v, int depth) {
    if (v.kind != Kind::kCall) return tensor_error(name, "is not a tensor");
    const auto& args = v.arguments->items;
    if (v.text == kRebuildParameter && !args.empty() && depth == 0) return read_tensor(name, *args[0], 1);
    if (v.text != kRebuildTensor || args.size() < 4 || args[0]->kind != Kind::kStorage ||
        args[1]->kind != Kind::kInteger)
      return tensor_error(name, "is not a plain tensor");
    const auto& storage_args = args[0]->arguments->items;  // 'storage', type, key, device, count (, view)
    const StorageType* type = storage_args.size() >= 5 ? storage_type(*storage_args[1]) : nullptr;
    if (!type || storage_args[2]->kind != Kind::kText || storage_args[4]->kind != Kind::kInteger)
      return tensor_error(name, "has a storage of an unknown kind");
    if (storage_args.size() > 5 && storage_args[5]->kind != Kind::kNone)
      return tensor_error(name,
                          "is a view of another storage, as very old files have; save it again in PyTorch");
    const auto* storage = find_storage_(storage_args[2]->text);
    const auto size = size_of(type->type);
    if (!storage || storage_args[4]->integer < 0 ||
        static_cast<uint64_t>(storage_args[4]->integer) > storage->size() / size)
      return tensor_error(name, "has a storage that is missing or too short: the download is incomplete");
    TorchFile::TensorInfo t;
    t.storage = *storage;
    t.offset = args[1]->integer;
    t.entry.dtype = type->type;
    MAKAR_TRY(t.entry.shape, dims(name, *args[2]));
    MAKAR_TRY(t.strides, dims(name, *args[3]));
    MAKAR_RETURN_IF_ERROR(check_extent(name, t, static_cast<int64_t>(storage->size() / size)));
    t.entry.begin =
        static_cast<size_t>(storage->data() - bytes_.data()) + static_cast<size_t>(t.offset) * size;
    t.entry.end = t.entry.begin + static_cast<size_t>(t.entry.shape.count()) * size;
    if (seen_storages_.insert(storage->data()).second) file_.data_bytes_ += storage->size();
    if (!file_.tensors_.emplace(name, std::move(t)).second) return tensor_error(name, "is given twice");
    file_.names_.push_back(name);
    return Done{};
  }

  Result<Shape> dims(const std::string& name, const PickleValue& v) const {
    const PickleValue& list =
        v.kind == Kind::kCall && v.arguments->items.size() == 1 ? *v.arguments->items[0] : v;
    if (list.kind != Kind::kItems || list.items.size() > Shape::kMaxRank)
      return tensor_error(name, "has no shape, or more than six dimensions");
    std::vector<int64_t> out;
    for (const PickleValue* d : list.items) {
      if (d->kind != Kind::kInteger || d->integer < 0 || d->integer > (int64_t{1} << 40))
        return tensor_error(name, "has a dimension out of bounds");
      out.push_back(d->integer);
    }
    return Shape(out);
  }

  // Every element lies in the storage, and a tensor has no more elements than its storage.
  Status check_extent(const std::string& name, const TorchFile::TensorInfo& t, int64_t available) const {
    if (t.strides.rank() != t.entry.shape.rank())
      return tensor_error(name, "has a stride for some dimensions only");
    int64_t count = 1, last = t.offset, extent = 0;
    for (int i = 0; i < t.strides.rank(); ++i) {
      if (__builtin_mul_overflow(count, t.entry.shape[i], &count) || count > available)
        return tensor_error(name, "has more elements than its storage");
      if (__builtin_mul_overflow(t.entry.shape[i] - 1, t.strides[i], &extent) ||
          __builtin_add_overflow(last, extent, &last))
        return tensor_error(name, "extends past the end of its storage");
    }
    if (count == 0) {
      for (const int64_t d : t.entry.shape)
        if (d > available + 1) return tensor_error(name, "has a dimension out of bounds");
    }
    if (t.offset < 0 || t.offset > available || (count > 0 && last >= available))
      return tensor_error(name, "extends past the end of its storage");
    return Done{};
  }

  TorchFile& file_;
  std::span<const std::byte> bytes_;
  std::function<const std::span<const std::byte>*(const std::string&)> find_storage_;
  std::set<const std::byte*> seen_storages_;
};

Result<TorchFile::File> TorchFile::open(const std::string& path) {
  MAKAR_TRY(auto map, MappedFile::open(path));
  const auto bytes = map->bytes();
  return parse(bytes, std::move(map), path);
}

Result<TorchFile::File> TorchFile::parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                         std::string place) {
  std::shared_ptr<TorchFile> file(new TorchFile);
  file->place_ = std::move(place);
  file->owner_ = std::move(owner);
  MAKAR_RETURN_IF_ERROR(TorchReader(*file, bytes).run());
  return File(file);
}

const TensorFile::Entry* TorchFile::entry(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second.entry;
}

Result<Tensor> TorchFile::tensor(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return error_of(Error::Kind::kNotFound, place_, "has no tensor {}", quote(name));
  const TensorInfo& t = it->second;
  const size_t size = size_of(t.entry.dtype);
  const std::byte* data = t.storage.data() + static_cast<size_t>(t.offset) * size;
  const Shape& shape = t.entry.shape;
  bool contiguous = true;
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    contiguous = contiguous && (shape[i] == 1 || t.strides[i] == expected);
    expected *= shape[i];
  }
  if (contiguous && reinterpret_cast<uintptr_t>(data) % size == 0)
    return Tensor::view_of(data, shape, t.entry.dtype, owner_);
  Tensor copy = Tensor::empty(shape, t.entry.dtype);
  if (contiguous) {
    if (copy.bytes() > 0) std::memcpy(copy.raw(), data, copy.bytes());
    return copy;
  }
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
  for (int64_t n = 0, count = shape.count(), from = 0; n < count; ++n) {
    std::memcpy(copy.raw() + static_cast<size_t>(n) * size, data + static_cast<size_t>(from) * size, size);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const auto at = static_cast<size_t>(d);
      from += t.strides[d];
      if (++index[at] < shape[d]) break;
      from -= t.strides[d] * shape[d];
      index[at] = 0;
    }
  }
  return copy;
}

}  // namespace makar
