// Any text as the address of a PostgreSQL database: the form shown in messages never contains the password.
#include "database/postgres.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(database_address) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find('\0') != std::string::npos) return 0;
  (void)is_postgres_address(text);
  const std::string shown = postgres_address_without_password("postgresql://me:SECRET7@" + text);
  check(shown.find("SECRET7") == std::string::npos || text.find("SECRET7") != std::string::npos,
        "no password");
  check(postgres_address_without_password(text).size() < 4000, "a bounded text");
  return 0;
}
