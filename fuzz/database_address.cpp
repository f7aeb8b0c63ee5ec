// Any text as the address of a PostgreSQL database: the form shown in messages never contains the password.
#include "database/postgres.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(database_address) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find('\0') != std::string::npos) return 0;
  (void)is_postgres_address(text);
  const std::string displayed = postgres_address_without_password("postgresql://me:SECRET7@" + text);
  check(displayed.find("SECRET7") == std::string::npos || text.find("SECRET7") != std::string::npos,
        "the password is not displayed");
  check(postgres_address_without_password(text).size() < 4000, "a displayed address is bounded");
  return 0;
}
