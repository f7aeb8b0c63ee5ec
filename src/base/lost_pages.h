// Mapped files that become shorter while they are mapped. Reading a page beyond the new end raises SIGBUS,
// which ends the process; after survive_lost_pages() such pages read as zeros instead, and the loss is
// recorded, so that results computed from them can be discarded.
#pragma once
#include <cstddef>
#include <cstdint>

namespace makar {

// Installs the handler, for the whole process.
void survive_lost_pages();

// The number of maps created so far; maps are numbered in the order of their creation.
uint64_t map_count();
// Whether any of the maps numbered `from` to `to` (exclusive) has lost pages.
bool pages_lost(uint64_t from, uint64_t to);

// For MappedFile: the handler covers the map until unregister_map().
void register_map(const std::byte* data, size_t size);
void unregister_map(const std::byte* data);

}  // namespace makar
