// Prints the JSON schema for schema_test.py.
#include <iostream>

#include "config/load.h"

int main() { std::cout << trainer::config::schema(); }
