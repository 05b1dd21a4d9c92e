#include "cli/cli.h"

int main(int argc, char** argv) { return trainer::cli::run(argc, argv); }
