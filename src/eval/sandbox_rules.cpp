#include "eval/sandbox_rules.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace makar {
namespace {

constexpr std::array kReadable = {"/usr", "/lib", "/lib64", "/bin"};
constexpr std::array kReadableFiles = {"/dev/urandom", "/etc/ld.so.cache", "/etc/ssl/openssl.cnf"};

constexpr uint64_t kReadAccess =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWriteAccess = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                  LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                  LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                  LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                  LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
// Newer than the header of Debian 12.
constexpr uint64_t kTruncateAccess = uint64_t{1} << 14, kDeviceControlAccess = uint64_t{1} << 15;
constexpr int kRenameVersion = 2, kTruncateVersion = 3, kDeviceControlVersion = 5;

// The access that a version of Landlock checks.
uint64_t checked_access(int version) {
  uint64_t out = kReadAccess | kWriteAccess;
  if (version >= kRenameVersion) out |= LANDLOCK_ACCESS_FS_REFER;  // else no renames between folders
  if (version >= kTruncateVersion) out |= kTruncateAccess;
  if (version >= kDeviceControlVersion) out |= kDeviceControlAccess;
  return out;
}

bool allow_path(int rules, const char* path, uint64_t access) {
  const int file = open(path, O_PATH | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;  // not every system has /lib64
  landlock_path_beneath_attr rule = {access, file};
  const bool added = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  close(file);
  return added;
}

// Calls that are newer than the headers of Debian 12. All architectures have the same numbers.
constexpr uint32_t kMemfdSecret = 447, kFchmodat2 = 452, kSetxattrat = 463, kRemovexattrat = 466,
                   kFileSetattr = 469;
// Calls that only x86-64 has.
#if defined(__x86_64__)
constexpr std::initializer_list<uint32_t> kOldModeCalls = {SYS_chmod};
constexpr std::initializer_list<uint32_t> kOldFileCalls = {SYS_chown, SYS_lchown, SYS_utime, SYS_utimes,
                                                           SYS_futimesat};
constexpr std::initializer_list<uint32_t> kOldProcessCalls = {SYS_fork, SYS_vfork};
constexpr std::initializer_list<uint32_t> kOldWatchCalls = {SYS_inotify_init};
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::initializer_list<uint32_t> kOldModeCalls = {}, kOldFileCalls = {}, kOldProcessCalls = {},
                                          kOldWatchCalls = {};
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::initializer_list<uint32_t> kOldModeCalls = {}, kOldFileCalls = {}, kOldProcessCalls = {},
                                          kOldWatchCalls = {};
constexpr uint32_t kArchitecture = 0;  // unknown: programs are not run
#endif
constexpr std::initializer_list<uint32_t> kModeCalls = {SYS_fchmod, SYS_fchmodat, kFchmodat2};
// Changes of files that Landlock does not check.
constexpr std::initializer_list<uint32_t> kFileCalls = {
    SYS_fchown,      SYS_fchownat,     SYS_utimensat,    SYS_setxattr, SYS_lsetxattr,  SYS_fsetxattr,
    SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, kSetxattrat,  kRemovexattrat, kFileSetattr};
// Reports of what other processes do in folders that the program may not read.
constexpr std::initializer_list<uint32_t> kWatchCalls = {SYS_inotify_init1, SYS_inotify_add_watch,
                                                         SYS_fanotify_init, SYS_fanotify_mark};
constexpr std::initializer_list<uint32_t> kOtherCalls = {
    // network, and ways around this filter
    SYS_socket, SYS_socketpair, SYS_io_uring_setup,
    // other processes
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kill, SYS_tkill, SYS_tgkill,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_setpriority,
    SYS_ioprio_set, SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
    SYS_setrlimit, SYS_prlimit64,
    // memory that the limits do not count, or that other processes share
    SYS_memfd_create, kMemfdSecret, SYS_shmget, SYS_shmat, SYS_shmctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv,
    SYS_msgctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl, SYS_mq_open, SYS_mq_unlink,
    // the system
    SYS_mount, SYS_umount2, SYS_unshare, SYS_setns, SYS_bpf, SYS_perf_event_open, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_chroot, SYS_reboot, SYS_open_by_handle_at};

constexpr uint32_t error_action(uint32_t number) { return SECCOMP_RET_ERRNO | (number & SECCOMP_RET_DATA); }
constexpr uint32_t kDeny = error_action(EPERM), kMissing = error_action(ENOSYS);

// A filter of system calls: each rule leaves the number of the call in the accumulator, or ends.
class FilterCode {
 public:
  FilterCode() {
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);  // x32 calls
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }
  void rule(uint32_t call, uint32_t action) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    add(BPF_RET | BPF_K, action);
  }
  void deny(std::initializer_list<uint32_t> calls) {
    for (const uint32_t call : calls) rule(call, kDeny);
  }
  // Decides by the lower 32 bits of an argument: whether the masked value is one of `values`.
  void argument_rule(uint32_t call, uint32_t argument, uint32_t mask, std::initializer_list<uint32_t> values,
                     uint32_t if_listed, uint32_t otherwise) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, static_cast<uint8_t>(3 + 2 * values.size()));
    add(BPF_LD | BPF_W | BPF_ABS,
        static_cast<uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(uint64_t)));
    add(BPF_ALU | BPF_AND | BPF_K, mask);
    for (const uint32_t value : values) rule(value, if_listed);
    add(BPF_RET | BPF_K, otherwise);
  }
  std::vector<sock_filter> allowing_the_rest() {
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return std::move(code_);
  }

 private:
  void add(uint16_t code, uint32_t k, uint8_t if_true = 0, uint8_t if_false = 0) {
    code_.push_back({code, if_true, if_false, k});
  }
  std::vector<sock_filter> code_;
};

}  // namespace

int landlock_version() {
  const auto version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

bool restrict_files(const char* folder, int version) {
  landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = checked_access(version);
  const int rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
  if (rules < 0) return false;
  const uint64_t null_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncateAccess;
  bool ok = allow_path(rules, folder, checked_access(version)) &&
            allow_path(rules, "/dev/null", null_access & checked_access(version));
  for (const char* path : kReadable) ok = ok && allow_path(rules, path, kReadAccess);
  for (const char* path : kReadableFiles) ok = ok && allow_path(rules, path, LANDLOCK_ACCESS_FS_READ_FILE);
  ok = ok && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return ok;
}

CallFilter::CallFilter(int version, bool compiles) {
  if (kArchitecture == 0) return;
  constexpr uint32_t kAll = ~uint32_t{0};
  FilterCode filter;
  filter.deny(kOtherCalls);
  filter.deny(kFileCalls), filter.deny(kOldFileCalls);
  filter.deny(kWatchCalls), filter.deny(kOldWatchCalls);
  if (version < kTruncateVersion) filter.deny({SYS_truncate});
  // Landlock lets a program open any file for neither reading nor writing (O_ACCMODE), which has effects on
  // devices. Opening with O_TRUNC changes a file even if it is opened for reading. The flags of openat2 are
  // in memory, which a filter cannot read.
  const std::initializer_list<uint32_t> unchecked = {O_TRUNC, O_ACCMODE, O_TRUNC | O_ACCMODE};
  filter.argument_rule(SYS_openat, 2, O_TRUNC | O_ACCMODE, unchecked, kDeny, SECCOMP_RET_ALLOW);
#if defined(__x86_64__)
  filter.argument_rule(SYS_open, 1, O_TRUNC | O_ACCMODE, unchecked, kDeny, SECCOMP_RET_ALLOW);
#endif
  filter.rule(SYS_openat2, kMissing);
  // Attributes of files can be set by ioctl; only calls for terminals and plain files (0x54..) are allowed.
  filter.argument_rule(SYS_ioctl, 1, 0xffffff00, {0x5400}, SECCOMP_RET_ALLOW, error_action(ENOTTY));
  // Signals to the owner of a file, leases that delay other processes, and reports of changes in folders.
  filter.argument_rule(SYS_fcntl, 1, kAll, {F_SETOWN, F_SETOWN_EX, F_SETLEASE, F_NOTIFY}, kDeny,
                       SECCOMP_RET_ALLOW);
  filter.argument_rule(SYS_prctl, 0, kAll, {PR_SET_PDEATHSIG}, kDeny, SECCOMP_RET_ALLOW);
  if (!compiles) {
    filter.deny(kModeCalls), filter.deny(kOldModeCalls);
    filter.deny(kOldProcessCalls);
    filter.rule(SYS_clone3, kMissing);  // its flags are in memory
    // Takes space faster than the sizes of files are checked.
    filter.rule(SYS_fallocate, error_action(EOPNOTSUPP));
    // Only threads that keep the open files of the process: the limit of open files holds for all of them
    // together.
    filter.argument_rule(SYS_close_range, 2, CLOSE_RANGE_UNSHARE, {0}, SECCOMP_RET_ALLOW, kDeny);
    filter.argument_rule(SYS_clone, 0, CLONE_THREAD | CLONE_FILES, {CLONE_THREAD | CLONE_FILES},
                         SECCOMP_RET_ALLOW, kDeny);
  }
  code_ = filter.allowing_the_rest();
}

bool CallFilter::install() const {
  // The kernel does not write to it.
  const sock_fprog program = {static_cast<unsigned short>(code_.size()),
                              const_cast<sock_filter*>(code_.data())};
  return !code_.empty() && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool drop_capabilities() {
  prctl(PR_SET_SECUREBITS, SECBIT_NOROOT);  // for root: executing a program does not bring them back
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none = {};
  return syscall(SYS_capset, &header, none.data()) == 0;
}

}  // namespace makar
