/* SPDX-License-Identifier: MIT */
/* A library that lacks calls: without LACKING it knows sections, with it not even their end. */
extern int begun, ended;
int begun, ended;

void fg_section_begin(void);
void fg_section_end(void);

void fg_section_begin(void)
{
	begun++;
}

#ifndef LACKING
void fg_section_end(void)
{
	ended++;
}
#endif
