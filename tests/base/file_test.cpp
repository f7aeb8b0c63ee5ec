#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file_writer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

TEST(MappedFile, ReleasedPagesAreReadAgain) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i);
  const std::string path = folder.path() + "/file";
  ASSERT_TRUE(write_file(path, text).ok());
  const auto map = MappedFile::open(path);
  ASSERT_TRUE(map.ok());
  const auto bytes = (*map)->bytes();
  const auto same = [&] { return std::memcmp(bytes.data(), text.data(), text.size()) == 0; };
  EXPECT_TRUE(same());
  MappedFile::release_pages(bytes.subspan(1, 1));
  MappedFile::release_pages(bytes.subspan(5000, 100000));
  EXPECT_TRUE(same());
  MappedFile::release_pages(bytes);
  EXPECT_TRUE(same());
}

// Released pages of ordinary memory would read as zeros.
TEST(MappedFile, OnlyPagesOfMappedFilesAreReleased) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/file";
  ASSERT_TRUE(write_file(path, std::string(100000, 'm')).ok());
  const auto map = MappedFile::open(path);
  ASSERT_TRUE(map.ok());
  std::vector<std::byte> memory(size_t{1} << 24, std::byte{7});
  MappedFile::release_pages(memory);
  for (const std::byte b : memory) ASSERT_EQ(b, std::byte{7});
}

TEST(FileWriter, ALinkStaysAndItsTargetIsReplaced) {
  const ScratchFolder folder;
  const std::string target = folder.path() + "/target", link = folder.path() + "/link";
  ASSERT_TRUE(write_file(target, "old").ok());
  std::filesystem::create_symlink("target", link);
  ASSERT_TRUE(write_file(link, "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(*read_file(target), "new");
}

TEST(FileWriter, ALinkToAMissingFileStaysAndTheFileIsMade) {
  const ScratchFolder folder;
  const std::string link = folder / "link";
  std::filesystem::create_directory(folder / "far");
  std::filesystem::create_symlink("near", link);
  std::filesystem::create_symlink("far/target", folder / "near");
  ASSERT_TRUE(write_file(link, "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link) && std::filesystem::is_symlink(folder / "near"));
  EXPECT_EQ(*read_file(folder / "far/target"), "new");
  std::filesystem::create_symlink("missing/target", folder / "nowhere");
  EXPECT_FALSE(write_file(folder / "nowhere", "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "nowhere"));
}

TEST(FileWriter, ALoopOfLinksIsAnError) {
  const ScratchFolder folder;
  std::filesystem::create_symlink("b", folder / "a");
  std::filesystem::create_symlink("a", folder / "b");
  const Status looped = write_file(folder / "a", "text");
  ASSERT_FALSE(looped.ok());
  EXPECT_NE(looped.error().text().find("links"), std::string::npos) << looped.error().text();
}

// The shell's `>> all` opens the file for appending; its old content must stay.
TEST(FileWriter, AnOpenDescriptorIsWrittenToInPlace) {
  const ScratchFolder folder;
  const std::string path = folder.write("all", "old");
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  std::string expected = "old";
  std::filesystem::create_symlink("/dev/fd/" + std::to_string(fd), folder / "link");
  for (const std::string& name : {"/dev/fd/" + std::to_string(fd), "/proc/self/fd/" + std::to_string(fd),
                                  "/proc/thread-self/fd/" + std::to_string(fd), folder / "link"}) {
    ASSERT_TRUE(write_file(name, "new").ok()) << name;
    expected += "new";
    EXPECT_EQ(*read_file(path), expected) << name;
  }
  EXPECT_FALSE(path_exists(path + ".tmp"));
  ::close(fd);
  EXPECT_FALSE(write_file("/dev/fd/" + std::to_string(fd), "new").ok());
}

// A file of that name that nobody writes is a leftover of a killed writer; links stay what they are.
TEST(FileWriter, TemporaryFilesOfOthersAreNotWrittenTo) {
  const ScratchFolder folder;
  const std::string path = folder / "out", temporary = path + ".tmp";
  ASSERT_TRUE(write_file(temporary, "leftover").ok());
  ASSERT_TRUE(write_file(path, "text").ok());
  EXPECT_FALSE(path_exists(temporary));
  ASSERT_TRUE(write_file(folder / "other", "important").ok());
  std::filesystem::create_symlink("other", temporary);
  ASSERT_TRUE(write_file(path, "new").ok());
  EXPECT_EQ(*read_file(path), "new");
  EXPECT_EQ(*read_file(folder / "other"), "important");
  EXPECT_TRUE(std::filesystem::is_symlink(temporary));
}

TEST(FileWriter, SeveralWritersOfOneFile) {
  const ScratchFolder folder;
  const std::string path = folder / "out";
  {
    auto first = FileWriter::open(path), second = FileWriter::open(path), third = FileWriter::open(path);
    ASSERT_TRUE(first.ok() && second.ok() && third.ok());
    ASSERT_TRUE(first->write("first").ok() && second->write("second").ok() && third->write("third").ok());
    ASSERT_TRUE(second->commit().ok());
    EXPECT_EQ(*read_file(path), "second");
    ASSERT_TRUE(first->commit().ok());
    EXPECT_EQ(*read_file(path), "first");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(FileWriter, PermissionsOfAReplacedFileStay) {
  const ScratchFolder folder;
  const std::string path = folder / "out";
  ASSERT_TRUE(write_file(path, "private").ok());
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  ASSERT_TRUE(write_file(path, "new").ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
}

TEST(FileWriter, OnlyFilesAreReplaced) {
  const ScratchFolder folder;
  EXPECT_FALSE(FileWriter::open(folder.path()).ok());
  EXPECT_FALSE(FileWriter::open("").ok());
  EXPECT_FALSE(FileWriter::open("/proc/self/fd/1x").ok());
  sockaddr_un address = {.sun_family = AF_UNIX};
  const std::string path = folder / "s";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_FALSE(FileWriter::open(path).ok());
  ::close(server);
}

TEST(FileWriter, DevicesAreWrittenTo) {
  EXPECT_TRUE(write_file("/dev/null", "text").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_FALSE(path_exists("/dev/null.tmp"));
  const Status full = write_file("/dev/full", "text");
  ASSERT_FALSE(full.ok());
  EXPECT_NE(full.error().text().find("/dev/full"), std::string::npos) << full.error().text();
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(FileWriter, APipeIsWrittenTo) {
  const ScratchFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(write_file(pipe, "text").ok());
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

}  // namespace
}  // namespace makar
