// Edits that break an intact model folder in one place.
#pragma once
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/file.h"
#include "base/json.h"

namespace makar::broken {

using Edit = std::function<void(const std::string& folder)>;

inline constexpr const char* kConfig = "config.json";
inline constexpr const char* kWeights = "model.safetensors";
inline constexpr const char* kIndex = "model.safetensors.index.json";

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// --- any file ---

inline Edit write_text(const std::string& file, const std::string& bytes) {
  return [=](const std::string& folder) { write_bytes(folder + "/" + file, bytes); };
}
inline Edit edit_bytes(const std::string& file, std::function<void(std::string&)> change) {
  return [=](const std::string& folder) {
    std::string content = *read_file(folder + "/" + file);
    change(content);
    write_bytes(folder + "/" + file, content);
  };
}
inline Edit remove_file(const std::string& file) {
  return [=](const std::string& folder) { std::filesystem::remove(folder + "/" + file); };
}
inline Edit rename_file(const std::string& file, const std::string& to) {
  return [=](const std::string& folder) { std::filesystem::rename(folder + "/" + file, folder + "/" + to); };
}
inline Edit replace_by_folder(const std::string& file) {
  return [=](const std::string& folder) {
    std::filesystem::remove(folder + "/" + file);
    std::filesystem::create_directory(folder + "/" + file);
  };
}
inline Edit replace_by_pipe(const std::string& file) {
  return [=](const std::string& folder) {
    std::filesystem::remove(folder + "/" + file);
    if (::mkfifo((folder + "/" + file).c_str(), 0600) != 0) std::abort();
  };
}
inline Edit replace_by_link(const std::string& file, const std::string& to) {
  return [=](const std::string& folder) {
    std::filesystem::remove(folder + "/" + file);
    std::filesystem::create_symlink(to, folder + "/" + file);
  };
}

// --- JSON files ---

inline Edit edit_json(const std::string& file, std::function<void(Json&)> change) {
  return edit_bytes(file, [=](std::string& content) {
    Json value = Json::parse(content);
    change(value);
    content = value.dump();
  });
}
inline Edit set_field(const std::string& key, const Json& value) {
  return edit_json(kConfig, [=](Json& c) { c[key] = value; });
}
inline Edit set_text(const std::string& key,
                     const std::string& value) {  // a value that no JSON library would write
  return edit_bytes(kConfig, [=](std::string& content) {
    content.insert(content.find('{') + 1, "\"" + key + "\": " + value + ", ");
  });
}
inline Edit remove_field(const std::string& key) {
  return edit_json(kConfig, [=](Json& c) { c.erase(key); });
}

// --- safetensors ---

inline std::string join_file(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}
inline Edit edit_header_text(std::function<void(std::string& header, std::string& data)> change,
                             const std::string& file = kWeights) {
  return edit_bytes(file, [=](std::string& content) {
    uint64_t length = 0;
    std::memcpy(&length, content.data(), 8);
    std::string header = content.substr(8, length), data = content.substr(8 + length);
    change(header, data);
    content = join_file(header, data);
  });
}
inline Edit edit_header(std::function<void(Json& header, std::string& data)> change,
                        const std::string& file = kWeights) {
  return edit_header_text(
      [=](std::string& text, std::string& data) {
        Json value = Json::parse(text);
        change(value, data);
        text = value.dump();
      },
      file);
}
inline Edit edit_tensor(const std::string& name, std::function<void(Json& entry)> change) {
  return edit_header([=](Json& h, std::string&) {
    if (!h.contains(name)) std::abort();  // the table names a tensor that the intact folder does not have
    change(h[name]);
  });
}
inline Edit set_type_and_shape(const std::string& name, const std::string& dtype, const Json& shape) {
  return edit_tensor(name, [=](Json& e) { e["dtype"] = dtype, e["shape"] = shape; });
}
inline Edit set_shape(const std::string& name, const Json& shape) {
  return edit_tensor(name, [=](Json& e) { e["shape"] = shape; });
}
inline Edit set_header_length(uint64_t length) {
  return edit_bytes(kWeights, [=](std::string& content) { std::memcpy(content.data(), &length, 8); });
}
// Removes a tensor and its bytes from the file.
inline Edit remove_tensor(const std::string& name) {
  return edit_header([=](Json& h, std::string& data) {
    if (!h.contains(name)) std::abort();
    const size_t begin = h[name]["data_offsets"][0], end = h[name]["data_offsets"][1];
    data.erase(begin, end - begin);
    h.erase(name);
    for (auto& [other, e] : h.items()) {
      if (!e.contains("data_offsets") || e["data_offsets"][0].get<size_t>() < end) continue;
      for (auto& at : e["data_offsets"]) at = at.get<size_t>() - (end - begin);
    }
  });
}
inline Edit add_tensor(const std::string& name, const Json& shape, size_t size,
                       const std::string& file = kWeights) {
  return edit_header(
      [=](Json& h, std::string& data) {
        h[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + size}}};
        data.append(size, '\0');
      },
      file);
}

}  // namespace makar::broken
