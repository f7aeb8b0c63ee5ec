#include "base/lost_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>

namespace makar {
namespace {

// One mapped file. The signal handler reads the slots without a lock, so they are never freed, only emptied.
// Maps beyond the last slot are not protected.
struct MapSlot {
  std::atomic<uintptr_t> begin{0}, end{0};  // end 0: empty
  std::atomic<uint64_t> number{0};
  std::atomic<bool> lost{false};
};
constexpr size_t kSlots = 4096;
std::array<MapSlot, kSlots> map_slots;
std::atomic<uint64_t> maps_counted{0};
std::atomic<bool> any_lost{false};
std::atomic<uintptr_t> system_page{4096};
std::mutex map_slots_mutex;  // guards changes of the slots

void on_bus_error(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (MapSlot& slot : map_slots) {
    const uintptr_t begin = slot.begin, end = slot.end;
    if (address < begin || address >= end) continue;
    const uintptr_t page = address & ~(system_page - 1);
    // The file was truncated: the rest of the map is lost too.
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    slot.lost = true, any_lost = true;
    return;
  }
  ::signal(SIGBUS, SIG_DFL);  // not handled: the instruction runs again and ends the process
}

}  // namespace

void survive_lost_pages() {
  system_page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

uint64_t map_count() { return maps_counted; }

bool pages_lost(uint64_t from, uint64_t to) {
  if (!any_lost) return false;
  for (const MapSlot& slot : map_slots)
    if (slot.lost && slot.number >= from && slot.number < to) return true;
  return false;
}

void register_map(const std::byte* data, size_t size) {
  const std::lock_guard lock(map_slots_mutex);
  const uint64_t number = maps_counted++;
  for (MapSlot& slot : map_slots) {
    if (slot.end != 0 || slot.lost) continue;  // a loss stays recorded
    slot.number = number;
    slot.begin = reinterpret_cast<uintptr_t>(data);
    slot.end = reinterpret_cast<uintptr_t>(data) + size;
    return;
  }
}

void unregister_map(const std::byte* data) {
  const std::lock_guard lock(map_slots_mutex);
  for (MapSlot& slot : map_slots)
    if (slot.begin == reinterpret_cast<uintptr_t>(data) && slot.end != 0) slot.end = 0, slot.begin = 0;
}

}  // namespace makar
