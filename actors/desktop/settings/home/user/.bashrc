PS1='user@desktop:\w\$ '
HISTFILE=
