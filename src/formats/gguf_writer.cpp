#include "formats/gguf_writer.h"

#include <set>

#include "base/file_writer.h"
#include "base/quote.h"
#include "formats/gguf.h"

namespace makar {
namespace {

template <class T>
void append_number(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}
void append_text(std::string& out, const std::string& text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  out += text;
}

Status check_sources(const std::string& path, const std::vector<GgufTensorSource>& tensors) {
  std::set<std::string_view> seen;
  for (const GgufTensorSource& t : tensors) {
    const auto refuse = [&](const std::string& why) {
      return error_of(Error::Kind::kUnsupported, path, "tensor {} {}", quote(t.name), why);
    };
    if (!seen.insert(t.name).second) return refuse("is given twice");
    if (gguf_type(t.dtype) < 0) return refuse("has type " + name(t.dtype) + ", which GGUF does not have");
    if (t.shape.rank() < 1 || t.shape.rank() > 4)
      return refuse(fmt::format("has shape {}; GGUF allows 1 to 4 dimensions", t.shape.text()));
    if (t.shape[-1] % layout_of(t.dtype).elements != 0)
      return refuse(fmt::format("has rows of {} values, which is not a whole number of {} blocks",
                                t.shape[-1], name(t.dtype)));
  }
  return Done{};
}

size_t padded(size_t bytes, size_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

std::string gguf_header(const GgufFields& fields, const std::vector<GgufTensorSource>& tensors,
                        size_t alignment) {
  std::string out = "GGUF";
  append_number(out, uint32_t{3});
  append_number(out, static_cast<uint64_t>(tensors.size()));
  append_number(out, static_cast<uint64_t>(fields.list().size()));
  for (const auto& [key, value] : fields.list()) {
    append_text(out, key);
    append_number(out, static_cast<uint32_t>(value.kind()));
    out += value.payload();
  }
  size_t at = 0;
  for (const GgufTensorSource& t : tensors) {
    append_text(out, t.name);
    append_number(out, static_cast<uint32_t>(t.shape.rank()));
    for (int i = t.shape.rank() - 1; i >= 0; --i) append_number(out, static_cast<uint64_t>(t.shape[i]));
    append_number(out, static_cast<uint32_t>(gguf_type(t.dtype)));
    append_number(out, static_cast<uint64_t>(at));
    at += padded(bytes_of(t.dtype, t.shape.count()), alignment);
  }
  out.resize(padded(out.size(), alignment), '\0');
  return out;
}

}  // namespace

std::string gguf_bytes(const GgufFields& fields) { return gguf_header(fields, {}, kGgufDefaultAlignment); }

Status write_gguf(const std::string& path, const GgufFields& fields,
                  const std::vector<GgufTensorSource>& tensors) {
  MAKAR_RETURN_IF_ERROR(check_sources(path, tensors));
  const int64_t requested = fields.integer("general.alignment").value_or(int64_t{kGgufDefaultAlignment});
  check(requested >= 8 && requested <= 1 << 20 && (requested & (requested - 1)) == 0,
        "alignment must be a power of two, at least 8");
  const auto alignment = static_cast<size_t>(requested);
  MAKAR_TRY(FileWriter writer, FileWriter::open(path));
  MAKAR_RETURN_IF_ERROR(writer.write(gguf_header(fields, tensors, alignment)));
  const std::string zeros(alignment, '\0');
  for (const GgufTensorSource& source : tensors) {
    MAKAR_TRY(const Tensor t, source.make());
    check(t.dtype() == source.dtype && t.shape() == source.shape,
          "tensor differs from its description: " + source.name);
    MAKAR_RETURN_IF_ERROR(writer.write({t.host().raw(), t.bytes()}));
    MAKAR_RETURN_IF_ERROR(
        writer.write(std::string_view(zeros).substr(0, padded(t.bytes(), alignment) - t.bytes())));
  }
  return writer.commit();
}

}  // namespace makar
