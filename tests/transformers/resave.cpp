// Loads a model folder and saves it again, for check_saved.py: resave IN OUT.
#include <fmt/format.h>

#include "models/load.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto loaded = makar::load_model(argv[1]);
  if (!loaded.ok()) return fmt::print(stderr, "{}\n", loaded.error().text()), 1;
  const auto saved = makar::save_model(argv[2], *loaded->model, *loaded->family);
  if (!saved.ok()) return fmt::print(stderr, "{}\n", saved.error().text()), 1;
  return 0;
}
